// The counter of a Draw is [blocks drawn so far, random stage, lineage mixed with the epoch]: for one epoch the mixing
// is a bijection of the lineage, so no two samples of an epoch share a stream.
#include <penstock/pipeline/draw.h>

#include <cmath>
#include <numbers>

#include <Random123/philox.h>

namespace penstock {

std::uint64_t mix_lineage(std::uint64_t lineage, std::uint64_t value) noexcept {
  std::uint64_t z = lineage + 0x9E3779B97F4A7C15ULL * (value + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

Draw::Draw(std::uint64_t seed, std::uint64_t epoch, std::uint64_t lineage, std::uint32_t stage) noexcept {
  const std::uint64_t place = mix_lineage(lineage, epoch);
  key_ = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  counter_ = {0, stage, static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32)};
}

void Draw::refill() noexcept {
  const r123::Philox4x32::ctr_type counter{{counter_[0], counter_[1], counter_[2], counter_[3]}};
  const r123::Philox4x32::key_type key{{key_[0], key_[1]}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32{}(counter, key);
  words_ = {words[0], words[1], words[2], words[3]};
  ++counter_[0];
  used_ = 0;
}

std::uint32_t Draw::bits() noexcept {
  if (used_ == words_.size()) refill();
  return words_[used_++];
}

double Draw::uniform() noexcept {
  const std::uint64_t high = bits() >> 5;
  const std::uint64_t low = bits() >> 6;
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

std::uint64_t Draw::below(std::uint64_t count) noexcept {
  // Smallest mask that covers count - 1, and again until the value fits: unbiased, under two tries on average.
  const std::uint64_t most = count - 1;
  std::uint64_t mask = most;
  for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
  for (;;) {
    std::uint64_t value = bits();
    if (mask > 0xFFFFFFFFULL) value |= static_cast<std::uint64_t>(bits()) << 32;
    value &= mask;
    if (value <= most) return value;
  }
}

double Draw::normal() noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace penstock
