// Grey from colour, by the weights of ITU-R BT.601. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// 0.299 R + 0.587 G + 0.114 B in 16-bit fixed point, rounded; equal to libjpeg's, and r when r == g == b.
constexpr std::byte luma(std::byte r, std::byte g, std::byte b) noexcept {
  const auto value = [](std::byte x) { return std::to_integer<std::uint32_t>(x); };
  return static_cast<std::byte>((19595 * value(r) + 38470 * value(g) + 7471 * value(b) + 32768) >> 16);
}

}  // namespace penstock::detail
