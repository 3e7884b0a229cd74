// Exact permutations of n slots from a key: a table for small n, arithmetic in constant memory above.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace penstock::order {

/// A bijection of [0, n) by a Feistel network with cycle walking (Black and Rogaway, 2002): the halves of the smallest
/// power of two that holds n are mixed eight times, again until the value lies below n. Immutable.
class FeistelPermutation {
 public:
  /// `size` >= 1.
  FeistelPermutation(std::uint64_t size, std::uint64_t key) noexcept;
  std::uint64_t index_at(std::uint64_t slot) const noexcept;
  /// The inverse of `index_at`.
  std::uint64_t slot_of(std::uint64_t index) const noexcept;

 private:
  // Fewer rounds leave small sizes visibly biased.
  static constexpr std::size_t kRounds = 8;
  std::uint64_t size_;
  std::uint32_t low_bits_;   // width of the half that is mixed in odd rounds
  std::uint32_t high_bits_;  // and in even rounds
  std::array<std::uint64_t, kRounds> round_keys_{};
};

/// A permutation of [0, n), from the key alone: Fisher and Yates up to 4,096 slots, Feistel above. Immutable.
class Permutation {
 public:
  static constexpr std::uint64_t kMostInTable = 4096;

  Permutation(std::uint64_t size, std::uint64_t key);
  std::uint64_t size() const noexcept { return size_; }
  /// What stands in `slot`; `slot` < size().
  std::uint64_t index_at(std::uint64_t slot) const noexcept {
    return table_.empty() ? feistel_.index_at(slot) : table_[slot];
  }
  /// Where `index` stands; `index` < size().
  std::uint64_t slot_of(std::uint64_t index) const noexcept {
    return inverse_.empty() ? feistel_.slot_of(index) : inverse_[index];
  }

 private:
  std::uint64_t size_;
  std::vector<std::uint16_t> table_;
  std::vector<std::uint16_t> inverse_;
  FeistelPermutation feistel_;
};

}  // namespace penstock::order
