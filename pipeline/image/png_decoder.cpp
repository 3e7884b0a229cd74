// PNG through libspng, always as 8-bit RGB, which it makes of every colour type, dropping alpha. We walk the chunks
// ourselves first: that tells a cut file at once, finds an eXIf chunk on either side of the pixels, and ends the data
// at IEND, so that nothing behind the picture is looked at.
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <spng.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/exif.h>
#include <penstock/pipeline/image/luma.h>
#include <penstock/pipeline/image/picture_decoder.h>

namespace penstock::detail {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kChunkFrameBytes = 12;  // length, type, checksum
constexpr std::size_t kMaxChunkBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxKeptBytes = std::size_t{32} << 20;

void check(int status) {
  if (status == SPNG_OK) return;
  if (status == SPNG_EMEM) throw std::bad_alloc();
  const bool ended = status == SPNG_IO_EOF || status == SPNG_EOF;
  throw DataError(ended ? ErrorKind::kTruncated : ErrorKind::kCorrupt, std::string("PNG: ") + spng_strerror(status));
}

struct FreeContext {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};

class PngDecoder final : public PictureDecoder {
 public:
  PngDecoder(std::span<const std::byte> encoded, const DecodeOptions& options)
      : context_(spng_ctx_new(0)), encoded_(encoded), channels_(options.channels) {
    if (context_ == nullptr) throw std::bad_alloc();
    const std::span<const std::byte> exif = walk_chunks();
    check(spng_set_png_buffer(context_.get(), encoded_.data(), encoded_.size()));
    // Texts and profiles are unpacked by the library though nobody asked for them; so they are limited.
    check(spng_set_chunk_limits(context_.get(), kMaxChunkBytes, kMaxKeptBytes));
    spng_ihdr header{};
    check(spng_get_ihdr(context_.get(), &header));
    require_pixels(header.width, header.height, options.max_pixels);
    stored_width_ = header.width;
    stored_height_ = header.height;
    info_.format = ImageFormat::kPng;
    info_.channels = channels_of(header.color_type);
    info_.orientation = options.orientation == Orientation::kApply ? exif_orientation(exif) : 1;
    info_.width = stored_width_;
    info_.height = stored_height_;
    if (exchanges_sides(info_.orientation)) std::swap(info_.width, info_.height);
  }

  std::size_t scratch_bytes() const noexcept override { return in_place() ? 0 : rgb_bytes(); }

  void decode(std::byte* pixels, std::byte* scratch) override {
    if (decoded_) throw InvalidArgument("decode was called twice");
    decoded_ = true;
    if (!whole_) {
      throw DataError(ErrorKind::kTruncated,
                      "PNG ends after " + std::to_string(encoded_.size()) + " bytes, before its IEND chunk");
    }
    std::byte* const rgb = in_place() ? pixels : scratch;
    check(spng_decode_image(context_.get(), rgb, rgb_bytes(), SPNG_FMT_RGB8, 0));
    check(spng_decode_chunks(context_.get()));  // the rest of the pixel data and of the chunks has to be sound as well
    if (in_place()) return;
    const Turn turn(info_.orientation, stored_height_, stored_width_, channels_);
    for (std::int64_t y = 0; y < stored_height_; ++y) {
      std::byte* const row = rgb + 3 * y * stored_width_;
      if (channels_ == 1) {
        for (std::int64_t x = 0; x < stored_width_; ++x) row[x] = luma(row[3 * x], row[3 * x + 1], row[3 * x + 2]);
      }
      turn.place(row, y, pixels);
    }
  }

 private:
  // Cuts encoded_ behind IEND; returns the contents of the first eXIf chunk. Checks no checksums: the library does.
  std::span<const std::byte> walk_chunks() noexcept {
    std::span<const std::byte> exif;
    std::size_t at = kSignatureBytes;
    while (encoded_.size() - at >= kChunkFrameBytes) {
      std::size_t length = 0;
      for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(encoded_[at + i]);
      if (encoded_.size() - at - kChunkFrameBytes < length) break;
      const std::byte* const type = encoded_.data() + at + 4;
      if (exif.empty() && std::memcmp(type, "eXIf", 4) == 0) exif = encoded_.subspan(at + 8, length);
      at += length + kChunkFrameBytes;
      if (std::memcmp(type, "IEND", 4) == 0) {
        encoded_ = encoded_.first(at);
        whole_ = true;
        break;
      }
    }
    return exif;
  }

  static int channels_of(int color_type) noexcept {
    switch (color_type) {
      case SPNG_COLOR_TYPE_GRAYSCALE:
        return 1;
      case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
        return 2;
      case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
        return 4;
      default:
        return 3;
    }
  }

  bool in_place() const noexcept { return channels_ == 3 && info_.orientation == 1; }
  std::size_t rgb_bytes() const noexcept { return static_cast<std::size_t>(stored_width_ * stored_height_) * 3; }

  std::unique_ptr<spng_ctx, FreeContext> context_;
  std::span<const std::byte> encoded_;
  std::int64_t stored_width_ = 0;
  std::int64_t stored_height_ = 0;
  int channels_;
  bool whole_ = false;
  bool decoded_ = false;
};

}  // namespace

std::unique_ptr<PictureDecoder> open_png(std::span<const std::byte> encoded, const DecodeOptions& options) {
  return std::make_unique<PngDecoder>(encoded, options);
}

const char* png_version() noexcept { return spng_version_string(); }

}  // namespace penstock::detail
