// Texts of the errors, and how a SampleError nests what was thrown first.
#include <penstock/pipeline/error.h>

#include <utility>

namespace penstock {
namespace {

std::string sample_text(const std::string& stage, std::uint64_t index, const std::string& source,
                        const std::string& detail) {
  std::string text = stage + ": sample " + std::to_string(index);
  if (!source.empty()) text += ", \"" + source + "\"";
  return text + ": " + detail;
}

}  // namespace

const char* to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kOpenFailed:
      return "open_failed";
    case ErrorKind::kEmptyFile:
      return "empty_file";
    case ErrorKind::kTruncated:
      return "truncated";
    case ErrorKind::kCorrupt:
      return "corrupt";
    case ErrorKind::kUnsupportedFormat:
      return "unsupported_format";
    case ErrorKind::kUnsupportedJpeg:
      return "unsupported_jpeg";
    case ErrorKind::kImageTooLarge:
      return "image_too_large";
    case ErrorKind::kBadMagic:
      return "bad_magic";
    case ErrorKind::kCountMismatch:
      return "count_mismatch";
    case ErrorKind::kLabelOutOfRange:
      return "label_out_of_range";
    case ErrorKind::kUnknownClass:
      return "unknown_class";
    case ErrorKind::kTooLarge:
      return "too_large";
    case ErrorKind::kTimedOut:
      return "timed_out";
    case ErrorKind::kUserCode:
      return "user_code";
    case ErrorKind::kOther:
      return "other";
  }
  return "other";
}

SourceError::SourceError(ErrorKind kind, std::string path, const std::string& detail)
    : InvalidArgument(path + ": " + detail), kind_(kind), path_(std::move(path)) {}

SampleError::SampleError(ErrorKind kind, std::string stage, std::uint64_t index, std::string source,
                         const std::string& detail, std::exception_ptr cause)
    : Error(sample_text(stage, index, source, detail)),
      kind_(kind),
      stage_(std::move(stage)),
      index_(index),
      source_(std::move(source)),
      cause_(std::move(cause)) {
  // nested_exception takes what is being handled, and std::rethrow_if_nested ends the program when that is nothing.
  try {
    if (cause_) std::rethrow_exception(cause_);
    throw Error(detail);
  } catch (...) {
    static_cast<std::nested_exception&>(*this) = std::nested_exception();
  }
}

}  // namespace penstock
