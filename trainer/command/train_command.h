// `penstock train`: trains, with the memory plan first and a row an epoch.
#pragma once

#include <penstock/trainer/command/job_options.h>
#include <penstock/trainer/command/signal_stop.h>

namespace penstock::trainer::command {

/// Exit code 0; 1 when the run failed, 3 when the plan is refused, 128 + n after signal n: each with one line on
/// standard error. With `--json` standard output has a line of JSON an epoch, or the refused plan. Throws what open_job
/// throws, before anything is written.
int run_train(const JobOptions& options, SignalStop& signals);

}  // namespace penstock::trainer::command
