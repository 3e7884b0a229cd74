// What a run of `penstock bench` measured, and how it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/report/verdict.h>

namespace penstock::trainer::command {

/// Of an emulated accelerator.
struct ConsumerResult {
  double step_seconds = 0;
  /// Share of the time after the first step that the consumer spent in steps.
  double utilisation = 0;
};

struct BenchResult {
  std::string source;
  std::vector<std::string> maps;  ///< names, a cache included
  std::size_t batch = 0;
  std::uint64_t epochs = 0;
  std::size_t threads = 0;
  std::uint64_t seed = 0;
  double seconds = 0;      ///< from the first call of next() to the last
  double cpu_seconds = 0;  ///< of the process in that time, but for hashing the batches
  std::uint64_t batch_hash = 0;
  std::uint64_t peak_in_flight_bytes = 0;
  std::optional<ConsumerResult> consumer;
  LoaderReport report;
  MachineLimits limits;
  Verdict verdict;

  double samples_per_s() const { return seconds > 0 ? static_cast<double>(report.samples) / seconds : 0; }
  double samples_per_cpu_s() const { return cpu_seconds > 0 ? static_cast<double>(report.samples) / cpu_seconds : 0; }
};

/// One object on one line; ends with a new line.
std::string bench_json(const BenchResult& result);
/// A table of the stages and the verdict; ends with a new line.
std::string bench_text(const BenchResult& result);

}  // namespace penstock::trainer::command
