// Both permutations take their randomness from a Draw keyed by the permutation's key.
#include <penstock/pipeline/order/permutation.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include <penstock/pipeline/draw.h>

namespace penstock::order {
namespace {

constexpr std::uint64_t low_mask(std::uint32_t bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

FeistelPermutation::FeistelPermutation(std::uint64_t size, std::uint64_t key) noexcept : size_(size) {
  const auto bits = static_cast<std::uint32_t>(std::max(2, static_cast<int>(std::bit_width(size - 1))));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  Draw draw(key, 0, size, 0);
  for (std::uint64_t& round_key : round_keys_) {
    const std::uint64_t high = draw.bits();
    round_key = (high << 32) | draw.bits();
  }
}

// A round turns [left, right] into [right, left ^ f(right)]; the widths of the halves change places each round, and are
// back after an even number of rounds.
std::uint64_t FeistelPermutation::index_at(std::uint64_t slot) const noexcept {
  std::uint64_t value = slot;
  do {
    std::uint32_t left_bits = high_bits_;
    std::uint32_t right_bits = low_bits_;
    std::uint64_t left = value >> right_bits;
    std::uint64_t right = value & low_mask(right_bits);
    for (const std::uint64_t round_key : round_keys_) {
      const std::uint64_t mixed = left ^ (mix_lineage(right, round_key) & low_mask(left_bits));
      left = right;
      right = mixed;
      std::swap(left_bits, right_bits);
    }
    value = (left << right_bits) | right;
  } while (value >= size_);
  return value;
}

std::uint64_t FeistelPermutation::slot_of(std::uint64_t index) const noexcept {
  std::uint64_t value = index;
  do {
    std::uint32_t left_bits = high_bits_;
    std::uint32_t right_bits = low_bits_;
    std::uint64_t left = value >> right_bits;
    std::uint64_t right = value & low_mask(right_bits);
    for (std::size_t round = kRounds; round-- > 0;) {
      std::swap(left_bits, right_bits);
      const std::uint64_t before = right ^ (mix_lineage(left, round_keys_[round]) & low_mask(left_bits));
      right = left;
      left = before;
    }
    value = (left << right_bits) | right;
  } while (value >= size_);
  return value;
}

Permutation::Permutation(std::uint64_t size, std::uint64_t key)
    : size_(size), feistel_(std::max<std::uint64_t>(size, 1), key) {
  if (size > kMostInTable || size == 0) return;
  table_.resize(size);
  std::iota(table_.begin(), table_.end(), std::uint16_t{0});
  Draw draw(key, 0, size, 1);
  for (std::uint64_t i = size; i-- > 1;) std::swap(table_[i], table_[draw.below(i + 1)]);
  inverse_.resize(size);
  for (std::uint64_t i = 0; i < size; ++i) inverse_[table_[i]] = static_cast<std::uint16_t>(i);
}

}  // namespace penstock::order
