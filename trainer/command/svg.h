// A picture of what `penstock bench` measured.
#pragma once

#include <string>

#include <penstock/trainer/command/bench_result.h>

namespace penstock::trainer::command {

/// An SVG document: a bar for each stage, thread time and waits in microseconds a sample, and one for the consumer,
/// with labels, figures, an axis and the verdict. Well-formed whatever the names hold.
std::string bench_svg(const BenchResult& result);

}  // namespace penstock::trainer::command
