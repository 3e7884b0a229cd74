// What the functors of the operations share: they are plain structs of pointers and sizes, compiled for the host and,
// by nvcc, for the device. An operation writes each output from one place and sums in one order, whoever runs it: by
// element (a GPU thread) or by row (the host, whose inner loops over channels become vector code).
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define PENSTOCK_HD __host__ __device__
#else
#define PENSTOCK_HD
#endif

/// Before an inner loop whose iterations do not depend on each other, though the compiler cannot know: pointers that
/// the contract allows to be equal point at the same element in the same iteration.
#if defined(__CUDACC__)
#define PENSTOCK_INDEPENDENT_LOOP
#elif defined(__clang__)
#define PENSTOCK_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define PENSTOCK_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif

namespace penstock::trainer::operations {

/// Rows of a [rows, channels] matrix that are reduced into one partial result, and partial results that are reduced
/// into one group: sums depend on these numbers and never on threads.
inline constexpr std::int64_t kTileRows = 64;
inline constexpr std::int64_t kGroupTiles = 32;

PENSTOCK_HD constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
PENSTOCK_HD constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
PENSTOCK_HD constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

/// W neighbouring channels as one value: vectors of the compiler on the host, where baseline instructions do four
/// floats at a time; a float on a device. Each channel is computed by itself in the same order, so W changes no value.
template <int W>
struct Channels;
#if !defined(__CUDACC__)
// Sizes are spelled out: GCC drops the attribute where its argument depends on a template parameter.
template <>
struct Channels<8> {
  typedef float Floats __attribute__((vector_size(32)));
  typedef std::int32_t Ints __attribute__((vector_size(32)));
};
template <>
struct Channels<4> {
  typedef float Floats __attribute__((vector_size(16)));
  typedef std::int32_t Ints __attribute__((vector_size(16)));
};
#endif
template <>
struct Channels<1> {
  using Floats = float;
  using Ints = std::int32_t;
};

PENSTOCK_HD inline void load(float& to, const float* from) { to = *from; }
PENSTOCK_HD inline void store(float* to, const float& from) { *to = from; }
PENSTOCK_HD inline float channel_of(const float& values, int /*channel*/) { return values; }
PENSTOCK_HD inline std::int32_t channel_of(const std::int32_t& values, int /*channel*/) { return values; }
#if !defined(__CUDACC__)
template <class Vector>
void load(Vector& to, const float* from) {
  __builtin_memcpy(&to, from, sizeof(to));
}
template <class Vector>
void store(float* to, const Vector& from) {
  __builtin_memcpy(to, &from, sizeof(from));
}
template <class Vector>
auto channel_of(const Vector& values, int channel) {
  return values[channel];
}
#endif

/// Calls `f.template block<W>(at, channel)` for blocks of W <= Most channels that make up [begin, end). Eight at a time
/// is best for sums; choices between values are vector code only at the width of an instruction, four.
template <int Most = 8, class F, class At>
PENSTOCK_HD inline void for_channel_blocks(const F& f, const At& at, std::int64_t begin, std::int64_t end) {
#if !defined(__CUDACC__)
  if constexpr (Most >= 8) {
    for (; begin + 8 <= end; begin += 8) f.template block<8>(at, begin);
  }
  for (; begin + 4 <= end; begin += 4) f.template block<4>(at, begin);
#endif
  for (; begin < end; ++begin) f.template block<1>(at, begin);
}

}  // namespace penstock::trainer::operations
