// Copies a window of a picture, also where it reaches beyond the edges. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/image/image_stage.h>

namespace penstock::detail {

struct Window {
  std::int64_t top;   ///< may be negative
  std::int64_t left;  ///< likewise
  std::int64_t height;
  std::int64_t width;
};

/// Writes [window.height, window.width, channels] to `to`. With Pad::kNone the window lies inside the picture.
void copy_window(const Picture& from, const Window& window, Pad pad, std::uint8_t fill, std::byte* to) noexcept;

}  // namespace penstock::detail
