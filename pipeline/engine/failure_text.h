// What a thrown value of any type says about itself.
#pragma once

#include <exception>
#include <string>

#include <penstock/pipeline/error.h>

namespace penstock::engine {

/// A fault in words.
struct FailureText {
  ErrorKind kind = ErrorKind::kUserCode;
  std::string detail;
};

/// Kind and text of `error`, which is not null. A DataError keeps its kind; anything else came from user code.
FailureText failure_text(const std::exception_ptr& error);

}  // namespace penstock::engine
