// Exif is a TIFF directory. Only one tag of it matters here, and nothing in it is to be trusted: every offset is
// checked, and whatever does not make sense means "not turned".
#include <penstock/pipeline/image/exif.h>

#include <cstring>

namespace penstock::detail {
namespace {

class TiffReader {
 public:
  TiffReader(std::span<const std::byte> bytes, bool little) noexcept : bytes_(bytes), little_(little) {}
  bool holds(std::size_t at, std::size_t count) const noexcept {
    return at <= bytes_.size() && bytes_.size() - at >= count;
  }
  std::uint32_t u16(std::size_t at) const noexcept {
    const std::uint32_t a = byte(at), b = byte(at + 1);
    return little_ ? a | b << 8 : a << 8 | b;
  }
  std::uint32_t u32(std::size_t at) const noexcept {
    return little_ ? u16(at) | u16(at + 2) << 16 : u16(at) << 16 | u16(at + 2);
  }

 private:
  std::uint32_t byte(std::size_t at) const noexcept { return std::to_integer<std::uint32_t>(bytes_[at]); }
  std::span<const std::byte> bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::span<const std::byte> exif) noexcept {
  constexpr std::size_t kPrefix = 6, kHeader = 8, kEntry = 12;
  constexpr std::uint32_t kOrientationTag = 0x0112, kShort = 3, kLong = 4;
  if (exif.size() >= kPrefix && std::memcmp(exif.data(), "Exif\0\0", kPrefix) == 0) exif = exif.subspan(kPrefix);
  if (exif.size() < kHeader) return 1;
  const bool little = std::memcmp(exif.data(), "II*\0", 4) == 0;
  if (!little && std::memcmp(exif.data(), "MM\0*", 4) != 0) return 1;
  const TiffReader tiff(exif, little);
  const std::size_t directory = tiff.u32(4);
  if (!tiff.holds(directory, 2)) return 1;
  const std::size_t count = tiff.u16(directory);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + i * kEntry;
    if (!tiff.holds(entry, kEntry)) return 1;
    if (tiff.u16(entry) != kOrientationTag) continue;
    const std::uint32_t type = tiff.u16(entry + 2);
    if ((type != kShort && type != kLong) || tiff.u32(entry + 4) != 1) return 1;
    const std::uint32_t value = type == kShort ? tiff.u16(entry + 8) : tiff.u32(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Turn::Turn(int orientation, std::int64_t stored_height, std::int64_t stored_width, int channels) noexcept
    : width_(stored_width), channels_(channels) {
  // Steps in the turned picture, in bytes: along a stored row, and down a stored column.
  const bool exchanged = exchanges_sides(orientation);
  const std::ptrdiff_t line = (exchanged ? stored_height : stored_width) * channels;
  std::ptrdiff_t along = exchanged ? line : channels;
  std::ptrdiff_t down = exchanged ? channels : line;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  first_ = 0;
  if (from_right) {
    first_ += along * (stored_width - 1);
    along = -along;
  }
  if (from_bottom) {
    first_ += down * (stored_height - 1);
    down = -down;
  }
  step_ = along;
  row_step_ = down;
}

void Turn::place(const std::byte* from, std::int64_t row, std::byte* pixels) const noexcept {
  const std::ptrdiff_t start = first_ + row * row_step_;
  if (step_ == channels_) {
    std::memcpy(pixels + start, from, static_cast<std::size_t>(width_ * channels_));
    return;
  }
  for (std::int64_t x = 0; x < width_; ++x) {
    std::memcpy(pixels + start + x * step_, from + x * channels_, static_cast<std::size_t>(channels_));
  }
}

}  // namespace penstock::detail
