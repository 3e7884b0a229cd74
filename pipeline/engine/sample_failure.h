// One failed sample in words: what SampleError and SampleFault say about it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include <penstock/pipeline/engine/failure_text.h>
#include <penstock/pipeline/error_policy.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

/// What failed, where, and why.
struct SampleFailure {
  std::string stage;
  std::uint64_t index = 0;
  std::string source;  ///< as it describes the sample
  FailureText text;
  std::exception_ptr cause;

  /// A SampleError with the cause nested.
  std::exception_ptr error() const;
  SampleFault fault(std::uint64_t epoch, std::uint64_t batch, std::optional<std::uint64_t> replacement = {}) const;
};

/// `cause`, which is not null, happened in `stage` to sample `index` of `source` (null: it cannot be named).
SampleFailure describe_failure(const std::string& stage, std::uint64_t index, const Source* source,
                               std::exception_ptr cause);

}  // namespace penstock::engine
