// What becomes of samples that fail, and the record of those that did.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include <penstock/pipeline/error.h>

namespace penstock {

/// What a failed sample does to its pipeline.
enum class OnError : std::uint8_t {
  kFail,     ///< `next()` throws SampleError in its place; rows before and after it arrive as short batches
  kSkip,     ///< it is left out and the next sample moves up
  kReplace,  ///< another sample of the same epoch, chosen by the seed alone, takes its place; not for evaluation
};

/// For `Pipeline::on_error`.
struct ErrorPolicy {
  OnError action = OnError::kFail;
  /// The most failures that are tolerated in one run of a loader, counted in the order of delivery; the next one is
  /// thrown as ErrorLimitReached.
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  friend bool operator==(const ErrorPolicy&, const ErrorPolicy&) = default;
};

/// One sample that was skipped or replaced.
struct SampleFault {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;  ///< number of the batch in its epoch that it was to be part of
  ErrorKind kind = ErrorKind::kOther;
  std::string stage;        ///< "read", or the name of the map that failed
  std::uint64_t index = 0;  ///< in its source
  std::string source;       ///< path, as the source describes it
  std::string message;
  std::optional<std::uint64_t> replacement;  ///< index of the sample that stands in its place
  friend bool operator==(const SampleFault&, const SampleFault&) = default;
};

/// Writes one JSON object a line: `epoch, batch, kind, stage, index, source, message, replacement` (null if skipped).
void write_faults(std::ostream& out, std::span<const SampleFault> faults);

/// More samples failed than the policy's limit allows; the last SampleError is nested.
class ErrorLimitReached : public Error, public std::nested_exception {
 public:
  using Error::Error;
};

}  // namespace penstock
