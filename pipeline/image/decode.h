// Encoded pictures to pixels: JPEG and PNG, told apart by their first bytes, never by a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace penstock {

/// Formats that are read.
enum class ImageFormat : std::uint8_t {
  kJpeg,  ///< baseline, extended and progressive, Huffman or arithmetic coded, 8 bit
  kPng,   ///< every colour type and depth, interlaced or not
};

/// What becomes of the turn flag of a picture (Exif tag 0x0112, in a JPEG's APP1 segment or a PNG's eXIf chunk).
enum class Orientation : std::uint8_t {
  kApply,   ///< pixels, height and width are those of the picture held upright
  kIgnore,  ///< pixels as they are stored
};

/// Pictures with more pixels than this are refused from their header alone, unless an option says otherwise.
inline constexpr std::uint64_t kDefaultMaxPixels = 178'956'970;

/// How a picture is decoded.
struct DecodeOptions {
  /// 1 (grey) or 3 (RGB).
  int channels = 3;
  Orientation orientation = Orientation::kApply;
  /// Pixels (width times height); at least 1. Raise it for data that you trust.
  std::uint64_t max_pixels = kDefaultMaxPixels;
};

/// What a header says.
struct ImageInfo {
  std::int64_t width = 0;   ///< in turned coordinates when the orientation is applied
  std::int64_t height = 0;  ///< likewise
  int channels = 0;         ///< of the file: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha or CMYK
  ImageFormat format = ImageFormat::kJpeg;
  int orientation = 1;  ///< the turn flag, 1 to 8 as Exif defines it; always 1 when it is ignored
};

/// Reads no further than the header needs. Throws as ImageDecoder's constructor does.
ImageInfo read_image_header(std::span<const std::byte> encoded, const DecodeOptions& options = {});

/// Name and version of the libraries that decode, `libjpeg-turbo 2.1.5, spng 0.7.3`: pixels may depend on them.
std::string decoder_versions();

namespace detail {
class PictureDecoder;
}

/// Decodes one picture into memory of the caller's.
///
/// **JPEG** is exactly what libjpeg-turbo gives with its accurate integer inverse DCT and fancy upsampling. A grey file
/// as RGB repeats its one channel; a colour file as grey is its luma (ITU-R BT.601). CMYK and YCCK with Adobe's marker:
/// R = C' K' / 255, rounded, of the stored values, G and B alike; without the marker the stored values are ink (0 is
/// none). **PNG**: palettes are looked up, samples below 8 bit spread to 0...255, of 16 bit the upper byte is taken;
/// alpha is dropped, not blended; grey from colour is (19595 R + 38470 G + 7471 B + 32768) / 65536, rounded down.
/// Colour profiles and gamma are not applied. What stands behind the first picture is not read.
///
/// Throws DataError, kinds:
/// - `empty_file`: no bytes;
/// - `truncated`: the bytes end before the picture does;
/// - `corrupt`: the bytes contradict themselves. Every warning of libjpeg about damaged data counts: pixels that it
///   made up are never delivered;
/// - `unsupported_format`: neither JPEG nor PNG; names BMP, GIF, WebP, TIFF and some others when recognised;
/// - `unsupported_jpeg`: 12 bit, lossless, or of another rare kind; holds libjpeg's text;
/// - `image_too_large`: from the header alone, before anything is allocated.
///
/// Used by one thread at a time; different decoders may run at once. Lifetime: the encoded bytes outlive the decoder.
class ImageDecoder {
 public:
  /// Reads the header. Throws DataError, and InvalidArgument for options that make no sense.
  explicit ImageDecoder(std::span<const std::byte> encoded, const DecodeOptions& options = {});
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;
  ~ImageDecoder();

  const ImageInfo& info() const noexcept;
  /// Bytes of the picture, [height, width, channels] u8, dense.
  std::size_t pixel_bytes() const noexcept;
  /// Bytes of working memory that `decode` needs from the caller.
  std::size_t scratch_bytes() const noexcept;
  /// Decodes the picture, once. Throws DataError; what is in `pixels` then is of no use. Throws InvalidArgument when a
  /// span is smaller than said above, or for a second call.
  void decode(std::span<std::byte> pixels, std::span<std::byte> scratch);

 private:
  std::unique_ptr<detail::PictureDecoder> decoder_;
  std::size_t pixel_bytes_ = 0;
};

}  // namespace penstock
