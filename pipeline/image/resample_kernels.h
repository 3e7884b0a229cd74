// The inner loops of resizing with few taps, in 16-bit fixed point, chosen for the processor at run time. Not for
// users.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/pipeline/image/resample_weights.h>

namespace penstock::detail {

/// Rows that are resized side by side: one lane each in the horizontal pass.
inline constexpr std::size_t kBandRows = 16;
/// Kernels are for at most this many taps: then the errors of all of them stay below a quarter of a level.
inline constexpr std::int64_t kMaxKernelTaps = 64;

/// The vertical pass of one row: out[i] = sum over k of in[k * in_stride + i] * weights[k], weights in 1/32768, result
/// in 1/128 of a level. Writes `count` values.
void vertical_pass(const std::uint8_t* in, std::ptrdiff_t in_stride, const std::uint32_t* weights, std::size_t taps,
                   std::size_t count, std::uint16_t* out);

/// Turns kBandRows rows of `count` values (a multiple of 8), `stride` apart, into `count` groups of kBandRows.
void rows_to_lanes(const std::uint16_t* rows, std::size_t stride, std::size_t count, std::uint16_t* lanes);

/// The horizontal pass on lanes: for each of `out_width` pixels and each channel the weighted sum of its taps, rounded
/// to whole levels.
void horizontal_pass(const std::uint16_t* in, const Taps* taps, const std::uint32_t* weights, std::size_t weight_stride,
                     std::size_t out_width, std::size_t channels, std::uint16_t* out);

/// Turns `count` groups of kBandRows back into rows of bytes, `stride` apart, the first `rows` of them.
void lanes_to_rows(const std::uint16_t* lanes, std::size_t count, std::size_t rows, std::ptrdiff_t stride,
                   std::uint8_t* out);

}  // namespace penstock::detail
