// `penstock plan`: what `penstock train` would take, without taking it.
#pragma once

#include <penstock/trainer/command/job_options.h>

namespace penstock::trainer::command {

/// Prints the plan (with `--json` as one JSON object) on standard output. Exit code 0, or 3 when it does not fit, with
/// the reason on standard error. Throws what open_job throws.
int run_plan(const JobOptions& options);

}  // namespace penstock::trainer::command
