// Tells the format by the first bytes and hands over to the decoder of that format.
#include <penstock/pipeline/image/decode.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/picture_decoder.h>

namespace penstock {
namespace {

constexpr std::string_view kJpegStart = "\xFF\xD8";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1A\n";

struct Signature {
  std::string_view name;
  std::size_t at;
  std::string_view bytes;
};

using std::string_view_literals::operator""sv;
constexpr std::array kUnread{
    Signature{"BMP", 0, "BM"sv},
    Signature{"GIF", 0, "GIF8"sv},
    Signature{"WebP", 8, "WEBP"sv},
    Signature{"TIFF", 0, "II*\0"sv},
    Signature{"TIFF", 0, "MM\0*"sv},
    Signature{"HEIF or AVIF", 4, "ftyp"sv},
    Signature{"JPEG 2000", 0, "\0\0\0\x0CjP  "sv},
    Signature{"JPEG XL", 0, "\0\0\0\x0CJXL "sv},
    Signature{"JPEG XL", 0, "\xFF\x0A"sv},
};

bool has_at(std::string_view bytes, std::size_t at, std::string_view wanted) {
  return bytes.size() >= at + wanted.size() && bytes.substr(at, wanted.size()) == wanted;
}

// Throws unless the bytes begin as a picture that is read here.
ImageFormat format_of(std::string_view bytes) {
  if (bytes.empty()) throw DataError(ErrorKind::kEmptyFile, "0 bytes where a picture was expected");
  if (has_at(bytes, 0, kJpegStart)) return ImageFormat::kJpeg;
  if (has_at(bytes, 0, kPngStart)) return ImageFormat::kPng;
  if (kJpegStart.starts_with(bytes) || kPngStart.starts_with(bytes)) {
    throw DataError(ErrorKind::kTruncated,
                    "picture ends after " + std::to_string(bytes.size()) + " bytes, inside its signature");
  }
  for (const Signature& signature : kUnread) {
    if (has_at(bytes, signature.at, signature.bytes)) {
      throw DataError(ErrorKind::kUnsupportedFormat,
                      "the bytes are " + std::string(signature.name) + "; JPEG and PNG are read");
    }
  }
  std::string start;
  for (const char c : bytes.substr(0, 8)) {
    std::array<char, 4> text{};
    std::snprintf(text.data(), text.size(), " %02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    start += text.data();
  }
  throw DataError(ErrorKind::kUnsupportedFormat,
                  "the first bytes," + start + ", begin no known picture; JPEG and PNG are read");
}

std::unique_ptr<detail::PictureDecoder> open_picture(std::span<const std::byte> encoded, const DecodeOptions& options) {
  if (options.channels != 1 && options.channels != 3) {
    throw InvalidArgument("channels is " + std::to_string(options.channels) + ", and must be 1 or 3");
  }
  if (options.max_pixels == 0) throw InvalidArgument("max_pixels is 0, and must be at least 1");
  const std::string_view bytes(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  return format_of(bytes) == ImageFormat::kJpeg ? detail::open_jpeg(encoded, options)
                                                : detail::open_png(encoded, options);
}

}  // namespace

void detail::require_pixels(std::uint64_t width, std::uint64_t height, std::uint64_t max_pixels) {
  if (height != 0 && width > max_pixels / height) {
    throw DataError(ErrorKind::kImageTooLarge, "the header says " + std::to_string(width) + " x " +
                                                   std::to_string(height) +
                                                   " pixels, more than max_pixels = " + std::to_string(max_pixels));
  }
}

ImageInfo read_image_header(std::span<const std::byte> encoded, const DecodeOptions& options) {
  return open_picture(encoded, options)->info();
}

std::string decoder_versions() {
  return std::string("libjpeg-turbo ") + detail::jpeg_version() + ", spng " + detail::png_version();
}

ImageDecoder::ImageDecoder(std::span<const std::byte> encoded, const DecodeOptions& options)
    : decoder_(open_picture(encoded, options)) {
  const ImageInfo& info = decoder_->info();
  pixel_bytes_ = static_cast<std::size_t>(info.width * info.height) * static_cast<std::size_t>(options.channels);
}

ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

const ImageInfo& ImageDecoder::info() const noexcept { return decoder_->info(); }
std::size_t ImageDecoder::pixel_bytes() const noexcept { return pixel_bytes_; }
std::size_t ImageDecoder::scratch_bytes() const noexcept { return decoder_->scratch_bytes(); }

void ImageDecoder::decode(std::span<std::byte> pixels, std::span<std::byte> scratch) {
  if (pixels.size() < pixel_bytes() || scratch.size() < scratch_bytes()) {
    throw InvalidArgument("decode got " + std::to_string(pixels.size()) + " bytes for pixels and " +
                          std::to_string(scratch.size()) + " for scratch, and needs " + std::to_string(pixel_bytes()) +
                          " and " + std::to_string(scratch_bytes()));
  }
  decoder_->decode(pixels.data(), scratch.data());
}

}  // namespace penstock
