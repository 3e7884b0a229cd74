// What `train` and `plan` are told about a job: the same options for both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <penstock/trainer/command/common_options.h>
#include <penstock/trainer/trainer.h>

namespace penstock::trainer::command {

/// As typed; empty where not given.
struct JobOptions {
  CommonOptions common;
  std::string train;
  std::string val;
  std::string model = "resnet9";
  std::string width;
  std::string epochs;
  std::string batch;
  std::string val_batch;
  std::string train_cap;
  std::string val_cap;
  std::string device_cap;
  std::string depth = "2";
  std::string host_budget = "1GiB";
  std::string learning_rate;
  std::string weight_decay;
  std::string recipe = "fashion";
  std::string cache;
  std::string out;
  std::string resume;
};

/// Adds the options, the common ones included, to a command. `options` must outlive `command`.
void add_job_options(CLI::App& command, JobOptions& options);

/// The options checked and converted. A cap that was not given stays gpu::kNoCap. Reads no data and writes nothing.
/// Throws InvalidArgument that names the option.
struct CheckedOptions {
  TrainerOptions trainer;
  std::size_t threads = 0;
  std::uint64_t host_budget_bytes = 0;
  std::optional<std::uint64_t> cache_bytes;
};
CheckedOptions check_options(const JobOptions& options);

}  // namespace penstock::trainer::command
