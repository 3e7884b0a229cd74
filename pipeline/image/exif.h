// The turn flag of a picture, and the turn itself. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::detail {

/// The turn flag (tag 0x0112 of the first directory) of Exif data, which begin with a TIFF header, with or without
/// "Exif\0\0" before it: 1 to 8, and 1 when there is none or the data make no sense.
int exif_orientation(std::span<const std::byte> exif) noexcept;

/// True when the turn exchanges height and width.
constexpr bool exchanges_sides(int orientation) noexcept { return orientation >= 5; }

/// Where the pixels of stored rows go. Heights and widths are those of the stored picture.
class Turn {
 public:
  Turn(int orientation, std::int64_t stored_height, std::int64_t stored_width, int channels) noexcept;
  /// Puts the stored row `row` (width x channels bytes) into the turned picture at `pixels`.
  void place(const std::byte* from, std::int64_t row, std::byte* pixels) const noexcept;

 private:
  std::int64_t width_;
  int channels_;
  std::ptrdiff_t first_;     // bytes from the start of the picture to where stored pixel (0, 0) goes
  std::ptrdiff_t row_step_;  // bytes from there to (1, 0)
  std::ptrdiff_t step_;      // bytes from there to (0, 1)
};

}  // namespace penstock::detail
