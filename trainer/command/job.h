// A job opened from its options: data, device, trainer. Nothing has been written and no device memory taken.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <penstock/trainer/command/job_options.h>
#include <penstock/trainer/trainer.h>

namespace penstock::trainer::command {

struct Job {
  Runtime runtime;
  std::shared_ptr<gpu::Device> device;
  Trainer trainer;
  std::filesystem::path out;         ///< run folder; not made yet
  std::string settings;              ///< lines for people: what was given, and every default
  std::vector<std::string> notices;  ///< lines for people
};

/// Whether the job will write a run folder.
enum class Purpose : std::uint8_t { kTrain, kPlan };

/// Opens what `options` name. Throws InvalidArgument (SourceError with it), and Error for a checkpoint that cannot be
/// read; each names the thing.
Job open_job(const JobOptions& options, Purpose purpose);

}  // namespace penstock::trainer::command
