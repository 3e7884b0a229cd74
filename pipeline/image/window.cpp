// Row by row: what lies inside the picture is one copy, what lies outside is filled or mirrored pixel by pixel.
#include <penstock/pipeline/image/window.h>

#include <algorithm>
#include <cstring>

namespace penstock::detail {
namespace {

// Folds an index into [0, count) as mirrors at the edge pixels do.
std::int64_t reflected(std::int64_t index, std::int64_t count) noexcept {
  if (count == 1) return 0;
  const std::int64_t period = 2 * (count - 1);
  std::int64_t place = index % period;
  if (place < 0) place += period;
  return place < count ? place : period - place;
}

void copy_row(const std::byte* from, std::int64_t width, std::int64_t channels, const Window& window, Pad pad,
              std::uint8_t fill, std::byte* to) noexcept {
  const auto bytes = [channels](std::int64_t pixels) { return static_cast<std::size_t>(pixels * channels); };
  const std::int64_t inside_begin = std::clamp<std::int64_t>(-window.left, 0, window.width);
  const std::int64_t inside_end = std::clamp<std::int64_t>(width - window.left, inside_begin, window.width);
  if (inside_end > inside_begin) {
    std::memcpy(to + inside_begin * channels, from + (window.left + inside_begin) * channels,
                bytes(inside_end - inside_begin));
  }
  const auto outside = [&](std::int64_t begin, std::int64_t end) {
    if (pad == Pad::kReflect) {
      for (std::int64_t x = begin; x < end; ++x) {
        std::memcpy(to + x * channels, from + reflected(window.left + x, width) * channels, bytes(1));
      }
    } else if (end > begin) {
      std::memset(to + begin * channels, fill, bytes(end - begin));
    }
  };
  outside(0, inside_begin);
  outside(inside_end, window.width);
}

}  // namespace

void copy_window(const Picture& from, const Window& window, Pad pad, std::uint8_t fill, std::byte* to) noexcept {
  const std::int64_t to_stride = window.width * from.channels;
  for (std::int64_t y = 0; y < window.height; ++y, to += to_stride) {
    std::int64_t source = window.top + y;
    if (source < 0 || source >= from.height) {
      if (pad != Pad::kReflect) {
        std::memset(to, fill, static_cast<std::size_t>(to_stride));
        continue;
      }
      source = reflected(source, from.height);
    }
    copy_row(from.pixels + source * from.stride_bytes(), from.width, from.channels, window, pad, fill, to);
  }
}

}  // namespace penstock::detail
