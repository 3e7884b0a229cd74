// Columns first, then rows. Up to kMaxKernelTaps taps a pixel, bands of kBandRows output rows go through the 16-bit
// kernels; a stronger reduction has weights too small for 16 bits and goes row by row through plain 32- and 64-bit
// loops.
#include <penstock/pipeline/image/resample.h>

#include <algorithm>
#include <cstring>

#include <penstock/pipeline/image/resample_kernels.h>
#include <penstock/pipeline/image/resample_weights.h>

namespace penstock::detail {
namespace {

constexpr int kKernelFractionBits = 15;
constexpr int kWideFractionBits = 22;
constexpr int kWideRowBits = 8;  // fraction bits of a row between the passes

std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }

// Hands out aligned pieces of the scratch memory; with a null base it only counts.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}
  template <class T>
  T* take(std::int64_t count) {
    T* const piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

struct Work {
  Work(const Resample& size, std::byte* scratch)
      : vertical_stride(max_tap_count(size.in_height, size.out_height)),
        horizontal_stride(max_tap_count(size.in_width, size.out_width)),
        in_row(size.in_width * size.channels),
        out_row(size.out_width * size.channels),
        kernels(std::max(vertical_stride, horizontal_stride) <= kMaxKernelTaps) {
    Pieces pieces(scratch);
    vertical_taps = pieces.take<Taps>(size.out_height);
    vertical_weights = pieces.take<std::uint32_t>(size.out_height * vertical_stride);
    horizontal_taps = pieces.take<Taps>(size.out_width);
    horizontal_weights = pieces.take<std::uint32_t>(size.out_width * horizontal_stride);
    if (kernels) {
      band = pieces.take<std::uint16_t>(padded(in_row) * std::int64_t{kBandRows});
      in_lanes = pieces.take<std::uint16_t>(padded(in_row) * std::int64_t{kBandRows});
      out_lanes = pieces.take<std::uint16_t>(padded(out_row) * std::int64_t{kBandRows});
    } else {
      sums = pieces.take<std::uint32_t>(in_row);
      band = pieces.take<std::uint16_t>(in_row);
    }
    bytes = pieces.used();
  }

  std::int64_t vertical_stride;
  std::int64_t horizontal_stride;
  std::int64_t in_row;
  std::int64_t out_row;
  bool kernels;
  Taps* vertical_taps = nullptr;
  Taps* horizontal_taps = nullptr;
  std::uint32_t* vertical_weights = nullptr;
  std::uint32_t* horizontal_weights = nullptr;
  std::uint16_t* band = nullptr;
  std::uint16_t* in_lanes = nullptr;
  std::uint16_t* out_lanes = nullptr;
  std::uint32_t* sums = nullptr;
  std::size_t bytes = 0;
};

void resample_by_kernels(const Resample& size, const Work& work, const std::uint8_t* in, std::int64_t in_stride,
                         std::uint8_t* out) {
  const auto in_row = static_cast<std::size_t>(work.in_row);
  const auto out_row = static_cast<std::size_t>(work.out_row);
  const auto stride = static_cast<std::size_t>(padded(work.in_row));
  // Rows and values that only fill up a group are carried along and never stored; they are set once.
  std::memset(work.band, 0, stride * kBandRows * sizeof(std::uint16_t));
  std::memset(work.out_lanes, 0, static_cast<std::size_t>(padded(work.out_row)) * kBandRows * sizeof(std::uint16_t));
  for (std::int64_t y = 0; y < size.out_height; y += std::int64_t{kBandRows}) {
    const std::int64_t rows = std::min(std::int64_t{kBandRows}, size.out_height - y);
    for (std::int64_t r = 0; r < rows; ++r) {
      const Taps taps = work.vertical_taps[y + r];
      vertical_pass(in + taps.first * in_stride, in_stride, work.vertical_weights + (y + r) * work.vertical_stride,
                    static_cast<std::size_t>(taps.count), in_row, work.band + static_cast<std::size_t>(r) * stride);
    }
    rows_to_lanes(work.band, stride, stride, work.in_lanes);
    horizontal_pass(work.in_lanes, work.horizontal_taps, work.horizontal_weights,
                    static_cast<std::size_t>(work.horizontal_stride), static_cast<std::size_t>(size.out_width),
                    static_cast<std::size_t>(size.channels), work.out_lanes);
    lanes_to_rows(work.out_lanes, out_row, static_cast<std::size_t>(rows), work.out_row, out + y * work.out_row);
  }
}

void resample_wide(const Resample& size, const Work& work, const std::uint8_t* in, std::int64_t in_stride,
                   std::uint8_t* out) {
  constexpr int kDown = kWideFractionBits - kWideRowBits;
  constexpr int kEnd = kWideFractionBits + kWideRowBits;
  for (std::int64_t y = 0; y < size.out_height; ++y) {
    const Taps rows = work.vertical_taps[y];
    std::fill_n(work.sums, work.in_row, std::uint32_t{1} << (kDown - 1));
    for (std::int64_t k = 0; k < rows.count; ++k) {
      const std::uint32_t weight = work.vertical_weights[y * work.vertical_stride + k];
      const std::uint8_t* const from = in + (rows.first + k) * in_stride;
      for (std::int64_t i = 0; i < work.in_row; ++i) work.sums[i] += weight * from[i];
    }
    for (std::int64_t i = 0; i < work.in_row; ++i) work.band[i] = static_cast<std::uint16_t>(work.sums[i] >> kDown);
    for (std::int64_t x = 0; x < size.out_width; ++x) {
      const Taps columns = work.horizontal_taps[x];
      const std::uint32_t* const weights = work.horizontal_weights + x * work.horizontal_stride;
      for (std::int64_t c = 0; c < size.channels; ++c) {
        std::uint64_t sum = std::uint64_t{1} << (kEnd - 1);
        for (std::int64_t k = 0; k < columns.count; ++k) {
          sum += std::uint64_t{weights[k]} * work.band[(columns.first + k) * size.channels + c];
        }
        out[y * work.out_row + x * size.channels + c] = static_cast<std::uint8_t>(sum >> kEnd);
      }
    }
  }
}

bool unchanged(const Resample& size) { return size.in_height == size.out_height && size.in_width == size.out_width; }

}  // namespace

std::size_t resample_scratch_bytes(const Resample& size) noexcept {
  return unchanged(size) ? 0 : Work(size, nullptr).bytes;
}

void resample(const Resample& size, const std::byte* in, std::int64_t in_stride, std::byte* out,
              std::byte* scratch) noexcept {
  if (unchanged(size)) {
    const std::int64_t row = size.in_width * size.channels;
    for (std::int64_t y = 0; y < size.in_height; ++y) {
      std::memcpy(out + y * row, in + y * in_stride, static_cast<std::size_t>(row));
    }
    return;
  }
  const Work work(size, scratch);
  const int bits = work.kernels ? kKernelFractionBits : kWideFractionBits;
  make_weights(size.in_height, size.out_height, bits, work.vertical_taps, work.vertical_weights);
  make_weights(size.in_width, size.out_width, bits, work.horizontal_taps, work.horizontal_weights);
  const auto* from = reinterpret_cast<const std::uint8_t*>(in);
  auto* to = reinterpret_cast<std::uint8_t*>(out);
  if (work.kernels) {
    resample_by_kernels(size, work, from, in_stride, to);
  } else {
    resample_wide(size, work, from, in_stride, to);
  }
}

}  // namespace penstock::detail
