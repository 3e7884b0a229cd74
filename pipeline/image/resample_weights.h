// Which input pixels make an output pixel, and with what weights: a triangle as wide as the reduction. Not for users.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// Input pixels `first`, first + 1, ..., `count` of them.
struct Taps {
  std::int32_t first;
  std::int32_t count;
};

/// Most taps that an output pixel may have, for memory.
std::int64_t max_tap_count(std::int64_t in, std::int64_t out) noexcept;

/// For each of `out` output pixels: its taps, and at weights[i * max_tap_count(in, out)] its weights, whole numbers >=
/// 0 with the sum 1 << fraction_bits. fraction_bits <= 24.
void make_weights(std::int64_t in, std::int64_t out, int fraction_bits, Taps* taps, std::uint32_t* weights) noexcept;

}  // namespace penstock::detail
