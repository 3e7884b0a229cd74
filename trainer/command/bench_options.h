// What `penstock bench` is told.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/trainer/command/common_options.h>

namespace penstock::trainer::command {

/// As typed; empty where not given.
struct BenchOptions {
  CommonOptions common;
  std::string source;
  std::string chain;
  std::vector<std::string> maps;
  std::string batch = "64";
  std::string epochs = "1";
  std::string cache;
  std::string prefetch;
  std::string consumer;
  std::string host_budget = "1GiB";
  std::string svg;
  std::string trace;
  std::string show;
  bool shuffle = false;
  bool autotune = false;
};

/// A row of a batch, of the first epoch.
struct RowPlace {
  std::uint64_t batch = 0;
  std::uint64_t row = 0;
};

/// The options checked and converted.
struct CheckedBench {
  std::size_t threads = 0;
  std::uint64_t seed = 0;
  std::size_t batch = 0;
  std::uint64_t epochs = 0;
  std::size_t prefetch = 1;
  std::uint64_t host_budget_bytes = 0;
  std::optional<std::uint64_t> cache_bytes;
  std::optional<std::chrono::nanoseconds> consumer;  ///< time of an emulated step
  std::optional<RowPlace> show;
};

/// Adds the options to a command. `options` must outlive `command`.
void add_bench_options(CLI::App& command, BenchOptions& options);

/// Reads no data. Throws InvalidArgument that names the option.
CheckedBench check_bench(const BenchOptions& options);

}  // namespace penstock::trainer::command
