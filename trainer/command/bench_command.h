// `penstock bench`: how fast a pipeline is on this machine, what limits it, and what the next step would bring.
#pragma once

#include <penstock/trainer/command/bench_options.h>
#include <penstock/trainer/command/signal_stop.h>

namespace penstock::trainer::command {

/// Runs the pipeline and prints what was measured, or shows one row. Gives the exit code. Throws InvalidArgument for
/// what can be refused before anything runs.
int run_bench(const BenchOptions& options, SignalStop& signals);

}  // namespace penstock::trainer::command
