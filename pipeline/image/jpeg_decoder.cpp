// JPEG through libjpeg-turbo's API. The library reports faults by calling back; the callbacks leave by longjmp, so the
// two functions that call it, read_header and read_pixels, and the callbacks hold nothing that has a destructor. Every
// warning about damaged data is a fault: the library would go on with pixels that it made up. Nothing is printed.

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <jpeglib.h>
// jerror.h wants jpeglib.h before it.
#include <jerror.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/exif.h>
#include <penstock/pipeline/image/luma.h>
#include <penstock/pipeline/image/picture_decoder.h>

namespace penstock::detail {
namespace {

constexpr int kMaxScans = 500;  // more are an attack: each progressive scan passes over the whole picture
constexpr std::size_t kRowAlignment = 32;
constexpr std::size_t kRowOffset = 16;  // see read_pixels

// What went wrong; filled by the callbacks.
struct Fault {
  jpeg_error_mgr manager{};  // first: the library's pointer to it is cast back
  std::jmp_buf leave{};
  ErrorKind kind = ErrorKind::kCorrupt;
  bool out_of_memory = false;
  char text[JMSG_LENGTH_MAX + 1] = {};
};

Fault& fault_of(j_common_ptr cinfo) { return *reinterpret_cast<Fault*>(cinfo->err); }

ErrorKind kind_of(int code) {
  switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_COMPONENT_COUNT:
    case JERR_EMPTY_IMAGE:
      return ErrorKind::kUnsupportedJpeg;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
      return ErrorKind::kImageTooLarge;
    case JWRN_JPEG_EOF:
    case JERR_INPUT_EOF:
    case JERR_INPUT_EMPTY:
      return ErrorKind::kTruncated;
    default:
      return ErrorKind::kCorrupt;
  }
}

[[noreturn]] void leave_with_message(j_common_ptr cinfo) {
  Fault& fault = fault_of(cinfo);
  fault.kind = kind_of(fault.manager.msg_code);
  fault.out_of_memory = fault.manager.msg_code == JERR_OUT_OF_MEMORY;
  fault.manager.format_message(cinfo, fault.text);
  std::longjmp(fault.leave, 1);
}

void on_message(j_common_ptr cinfo, int level) {
  // Negative levels are warnings. An unknown minor header revision says nothing about the pixels.
  if (level < 0 && cinfo->err->msg_code != JWRN_JFIF_MAJOR) leave_with_message(cinfo);
}

void print_nothing(j_common_ptr) {}

// All bytes are there from the start: whoever asks for more has a picture that was cut.
[[noreturn]] void leave_truncated(j_common_ptr cinfo, std::size_t bytes) {
  Fault& fault = fault_of(cinfo);
  fault.kind = ErrorKind::kTruncated;
  std::snprintf(fault.text, sizeof fault.text, "JPEG ends after %zu bytes, before its end-of-image marker", bytes);
  std::longjmp(fault.leave, 1);
}

struct Input {
  jpeg_source_mgr manager{};  // first, as above
  std::size_t byte_count = 0;
};

std::size_t byte_count(j_decompress_ptr cinfo) { return reinterpret_cast<Input*>(cinfo->src)->byte_count; }

boolean no_more_input(j_decompress_ptr cinfo) {
  leave_truncated(reinterpret_cast<j_common_ptr>(cinfo), byte_count(cinfo));
}

void skip_input(j_decompress_ptr cinfo, long count) {
  if (count <= 0) return;
  if (static_cast<std::size_t>(count) > cinfo->src->bytes_in_buffer) no_more_input(cinfo);
  cinfo->src->next_input_byte += count;
  cinfo->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

void do_nothing(j_decompress_ptr) {}

void on_progress(j_common_ptr cinfo) {
  if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number <= kMaxScans) return;
  Fault& fault = fault_of(cinfo);
  fault.kind = ErrorKind::kCorrupt;
  std::snprintf(fault.text, sizeof fault.text, "JPEG has more than %d scans", kMaxScans);
  std::longjmp(fault.leave, 1);
}

// c k / 255, rounded.
std::byte scaled(std::uint32_t c, std::uint32_t k) { return static_cast<std::byte>((c * k + 127) / 255); }

class JpegDecoder final : public PictureDecoder {
 public:
  JpegDecoder(std::span<const std::byte> encoded, const DecodeOptions& options) : channels_(options.channels) {
    cinfo_.err = jpeg_std_error(&fault_.manager);
    fault_.manager.error_exit = leave_with_message;
    fault_.manager.emit_message = on_message;
    fault_.manager.output_message = print_nothing;
    input_.byte_count = encoded.size();
    input_.manager.next_input_byte = reinterpret_cast<const JOCTET*>(encoded.data());
    input_.manager.bytes_in_buffer = encoded.size();
    input_.manager.init_source = do_nothing;
    input_.manager.fill_input_buffer = no_more_input;
    input_.manager.skip_input_data = skip_input;
    input_.manager.resync_to_restart = jpeg_resync_to_restart;
    input_.manager.term_source = do_nothing;
    progress_.progress_monitor = on_progress;
    try {
      open(options);
    } catch (...) {
      jpeg_destroy_decompress(&cinfo_);
      throw;
    }
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() override { jpeg_destroy_decompress(&cinfo_); }

  std::size_t scratch_bytes() const noexcept override {
    // A row of up to four components that begins 16 bytes behind a 32-byte boundary.
    return static_cast<std::size_t>(cinfo_.image_width) * 4 + kRowAlignment + kRowOffset;
  }

  void decode(std::byte* pixels, std::byte* scratch) override {
    if (decoded_) throw InvalidArgument("decode was called twice");
    decoded_ = true;
    const auto address = reinterpret_cast<std::uintptr_t>(scratch);
    row_ = scratch + (kRowAlignment - address % kRowAlignment) % kRowAlignment + kRowOffset;
    pixels_ = pixels;
    if (!read_pixels()) throw_fault();
  }

 private:
  void open(const DecodeOptions& options) {
    save_exif_ = options.orientation == Orientation::kApply;
    if (!read_header()) throw_fault();
    require_pixels(cinfo_.image_width, cinfo_.image_height, options.max_pixels);
    if (cinfo_.num_components != 1 && cinfo_.num_components != 3 && cinfo_.num_components != 4) {
      throw DataError(ErrorKind::kUnsupportedJpeg,
                      "JPEG with " + std::to_string(cinfo_.num_components) + " components; 1, 3 and 4 are read");
    }
    info_.format = ImageFormat::kJpeg;
    info_.channels = cinfo_.num_components;
    info_.orientation = 1;
    for (const jpeg_marker_struct* marker = cinfo_.marker_list; marker != nullptr; marker = marker->next) {
      constexpr std::size_t kExifStart = 6;
      if (marker->data_length < kExifStart || std::memcmp(marker->data, "Exif\0\0", kExifStart) != 0) continue;
      info_.orientation = exif_orientation(std::as_bytes(std::span(marker->data, marker->data_length)));
      break;
    }
    info_.width = cinfo_.image_width;
    info_.height = cinfo_.image_height;
    if (exchanges_sides(info_.orientation)) std::swap(info_.width, info_.height);
    turn_ = Turn(info_.orientation, cinfo_.image_height, cinfo_.image_width, channels_);
  }

  // False: fault_ says why.
  bool read_header() noexcept {
    if (setjmp(fault_.leave) != 0) return false;
    jpeg_create_decompress(&cinfo_);
    cinfo_.src = &input_.manager;
    cinfo_.progress = &progress_;
    if (save_exif_) jpeg_save_markers(&cinfo_, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&cinfo_, TRUE);
    return true;
  }

  bool read_pixels() noexcept {
    if (setjmp(fault_.leave) != 0) return false;
    const bool inks = cinfo_.num_components == 4;
    cinfo_.out_color_space = inks ? JCS_CMYK : channels_ == 1 ? JCS_GRAYSCALE : JCS_RGB;
    cinfo_.dct_method = JDCT_ISLOW;
    cinfo_.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&cinfo_);
    while (cinfo_.output_scanline < cinfo_.output_height) {
      const std::size_t row = cinfo_.output_scanline;
      std::byte* const in_place = pixels_ + row * cinfo_.output_width * static_cast<std::size_t>(channels_);
      // The library stores past the cache into rows that are 32-byte aligned, and the next stage would read them from
      // memory (80 against 91 % of the decoding limit). Such rows go through a row that is not aligned.
      const bool direct =
          !inks && info_.orientation == 1 && reinterpret_cast<std::uintptr_t>(in_place) % kRowAlignment != 0;
      JSAMPROW target = reinterpret_cast<JSAMPROW>(direct ? in_place : row_);
      jpeg_read_scanlines(&cinfo_, &target, 1);
      if (direct) continue;
      if (inks) mix_inks();
      turn_.place(row_, static_cast<std::int64_t>(row), pixels_);
    }
    jpeg_finish_decompress(&cinfo_);
    return true;
  }

  // The row of CMYK becomes RGB or grey, in place.
  void mix_inks() noexcept {
    const std::uint32_t flip = cinfo_.saw_Adobe_marker ? 0 : 255;  // Adobe stores 255 - ink
    for (std::size_t x = 0; x < cinfo_.output_width; ++x) {
      const auto stored = [&](std::size_t i) { return std::to_integer<std::uint32_t>(row_[4 * x + i]) ^ flip; };
      const std::uint32_t k = stored(3);
      const std::byte r = scaled(stored(0), k), g = scaled(stored(1), k), b = scaled(stored(2), k);
      if (channels_ == 1) {
        row_[x] = luma(r, g, b);
      } else {
        row_[3 * x] = r;
        row_[3 * x + 1] = g;
        row_[3 * x + 2] = b;
      }
    }
  }

  [[noreturn]] void throw_fault() const {
    if (fault_.out_of_memory) throw std::bad_alloc();
    throw DataError(fault_.kind, fault_.text);
  }

  Fault fault_;
  Input input_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct cinfo_{};
  Turn turn_{1, 0, 0, 3};
  std::byte* pixels_ = nullptr;
  std::byte* row_ = nullptr;
  int channels_;
  bool save_exif_ = false;
  bool decoded_ = false;
};

}  // namespace

std::unique_ptr<PictureDecoder> open_jpeg(std::span<const std::byte> encoded, const DecodeOptions& options) {
  return std::make_unique<JpegDecoder>(encoded, options);
}

#define PENSTOCK_TEXT_OF(x) #x
#define PENSTOCK_TEXT(x) PENSTOCK_TEXT_OF(x)
const char* jpeg_version() noexcept { return PENSTOCK_TEXT(LIBJPEG_TURBO_VERSION); }

}  // namespace penstock::detail
