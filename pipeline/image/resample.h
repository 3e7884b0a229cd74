// Resizes a window of a picture in fixed point. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

struct Resample {
  std::int64_t in_height;
  std::int64_t in_width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t channels;
};

/// Working memory that `resample` needs.
std::size_t resample_scratch_bytes(const Resample& size) noexcept;

/// Reads in_height rows of in_width * channels bytes, `in_stride` bytes apart, from `in`; writes the dense picture
/// `out`. The same bytes with every instruction set. `scratch` is 64-byte aligned. Safe for concurrent use.
void resample(const Resample& size, const std::byte* in, std::int64_t in_stride, std::byte* out,
              std::byte* scratch) noexcept;

}  // namespace penstock::detail
