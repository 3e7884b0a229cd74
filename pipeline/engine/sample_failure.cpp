// A source that throws while it names the sample is itself worth a word, and must not hide the first fault.
#include <penstock/pipeline/engine/sample_failure.h>

#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::engine {

std::exception_ptr SampleFailure::error() const {
  return std::make_exception_ptr(SampleError(text.kind, stage, index, source, text.detail, cause));
}

SampleFault SampleFailure::fault(std::uint64_t epoch, std::uint64_t batch,
                                 std::optional<std::uint64_t> replacement) const {
  return {epoch, batch, text.kind, stage, index, source, text.detail, replacement};
}

SampleFailure describe_failure(const std::string& stage, std::uint64_t index, const Source* source,
                               std::exception_ptr cause) {
  SampleFailure failure{stage, index, {}, failure_text(cause), std::move(cause)};
  try {
    if (source) failure.source = source->describe(index);
  } catch (...) {
    failure.text.detail +=
        " (and the source cannot describe the sample: " + failure_text(std::current_exception()).detail + ")";
  }
  return failure;
}

}  // namespace penstock::engine
