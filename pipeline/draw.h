// Randomness that depends on what is drawn for, never on when or where: a counter-based generator per sample and stage.
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

/// Random numbers of one random stage for one sample: Philox 4x32-10 (Salmon et al., 2011) keyed by the seed, counted
/// by epoch, lineage of the sample, and the number of random stages before this one. Equal arguments give equal numbers
/// on any thread, in any order of execution. Not safe for use from two threads at once; a stage gets its own.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t epoch, std::uint64_t lineage, std::uint32_t stage) noexcept;

  /// 32 uniform bits.
  std::uint32_t bits() noexcept;
  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform() noexcept;
  /// Uniform in [low, high).
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// Uniform integer in [0, count), without bias. `count` >= 1.
  std::uint64_t below(std::uint64_t count) noexcept;
  /// True with probability `p`.
  bool chance(double p) noexcept { return uniform() < p; }
  /// Standard normal (Box and Muller, 1958).
  double normal() noexcept;

  /// How many times 32 bits have been taken so far, by whichever function.
  std::uint64_t used() const noexcept { return std::uint64_t{counter_[0]} * words_.size() + used_ - words_.size(); }

 private:
  void refill() noexcept;

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> words_{};
  std::uint32_t used_ = 4;
};

/// Mixes `value` into a 64-bit lineage; a bijection of `lineage` for fixed `value`. (Finaliser of SplitMix64.)
std::uint64_t mix_lineage(std::uint64_t lineage, std::uint64_t value) noexcept;

}  // namespace penstock
