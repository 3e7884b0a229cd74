// The words of a verdict.
#pragma once

#include <cstddef>
#include <string>

#include <penstock/pipeline/report/verdict.h>

namespace penstock::report {

/// `one more thread: +48 %`
std::string step_text(const VerdictStep& step);
/// The sentence; everything but the text of `verdict` is set.
std::string verdict_text(const Verdict& verdict, const MachineLimits& limits, std::size_t threads);

}  // namespace penstock::report
