// The errors of the library: typed, with everything a person needs to find the cause.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace penstock {

/// The caller's mistake, found at construction, before any thread starts.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Anything that goes wrong while the library works; base of the errors below.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What kind of fault a sample or a data set has. Names as `to_string` prints them are stable.
enum class ErrorKind : std::uint8_t {
  kOpenFailed,         ///< the operating system refused to open or read
  kEmptyFile,          ///< zero bytes where a picture or a header was expected
  kTruncated,          ///< the data end too early
  kCorrupt,            ///< the data contradict themselves
  kUnsupportedFormat,  ///< the first bytes belong to no format that is read here
  kUnsupportedJpeg,    ///< a JPEG of a kind that is not read (12 bit, lossless, ...)
  kImageTooLarge,      ///< the header claims more pixels than allowed
  kBadMagic,           ///< a file of another type than its place says
  kCountMismatch,      ///< two files disagree about how many samples there are
  kLabelOutOfRange,    ///< a label outside [0, classes)
  kUnknownClass,       ///< a class folder that training does not have
  kTooLarge,           ///< a sample larger than the loader's largest sample
  kTimedOut,           ///< the source did not answer in time
  kUserCode,           ///< a user's function threw
  kOther,
};

/// `open_failed`, `truncated`, ...: the stable name of a kind.
const char* to_string(ErrorKind kind) noexcept;

/// A data set that cannot be used: thrown when a source is opened. `what()` names the path.
class SourceError : public InvalidArgument {
 public:
  SourceError(ErrorKind kind, std::string path, const std::string& detail);
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& path() const noexcept { return path_; }

 private:
  ErrorKind kind_;
  std::string path_;
};

/// A fault in the bytes of one sample, before anyone has said which sample: thrown by decoders and readers, caught by
/// the engine, which nests it in a SampleError.
class DataError : public Error {
 public:
  DataError(ErrorKind kind, const std::string& detail) : Error(detail), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// One sample failed. Thrown by `Loader::next()` in the sample's place; the original exception, of any type, is nested
/// (`cause()`, or std::rethrow_if_nested). `what()`: `decode_image: sample 41, "train/0041.jpg": truncated: ...`.
class SampleError : public Error, public std::nested_exception {
 public:
  SampleError(ErrorKind kind, std::string stage, std::uint64_t index, std::string source, const std::string& detail,
              std::exception_ptr cause);
  ErrorKind kind() const noexcept { return kind_; }
  /// Name of the stage that failed; "read" when it was the source.
  const std::string& stage() const noexcept { return stage_; }
  /// Index of the sample in its source.
  std::uint64_t index() const noexcept { return index_; }
  /// Path (or shard and record) as the source describes it.
  const std::string& source() const noexcept { return source_; }
  /// The original exception; null when there is none.
  std::exception_ptr cause() const noexcept { return cause_; }

 private:
  ErrorKind kind_;
  std::string stage_;
  std::uint64_t index_;
  std::string source_;
  std::exception_ptr cause_;
};

/// Only batches that the caller keeps block progress: `next()` says so instead of waiting for ever.
class BudgetHeldByCaller : public Error {
 public:
  using Error::Error;
};

/// The loader was stopped while `next()` waited.
class Stopped : public Error {
 public:
  using Error::Error;
};

}  // namespace penstock
