// What the decoder of one format offers to ImageDecoder. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/pipeline/image/decode.h>

namespace penstock::detail {

/// One picture of one format, its header read. `info()` is in turned coordinates.
class PictureDecoder {
 public:
  virtual ~PictureDecoder() = default;
  const ImageInfo& info() const noexcept { return info_; }
  virtual std::size_t scratch_bytes() const noexcept = 0;
  virtual void decode(std::byte* pixels, std::byte* scratch) = 0;

 protected:
  ImageInfo info_;
};

/// The decoder of a format, for bytes that begin as that format does. Throw DataError as ImageDecoder's constructor
/// does.
std::unique_ptr<PictureDecoder> open_jpeg(std::span<const std::byte> encoded, const DecodeOptions& options);
std::unique_ptr<PictureDecoder> open_png(std::span<const std::byte> encoded, const DecodeOptions& options);
/// Versions of the libraries.
const char* jpeg_version() noexcept;
const char* png_version() noexcept;

/// Throws DataError(kImageTooLarge) that names the size and the limit.
void require_pixels(std::uint64_t width, std::uint64_t height, std::uint64_t max_pixels);

}  // namespace penstock::detail
