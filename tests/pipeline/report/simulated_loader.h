// A loader on a simulated clock: threads, reads, open batches and a consumer whose times are whole nanoseconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include <penstock/pipeline/loader.h>

namespace penstock::test {

/// One pipeline. Every sample costs the same.
struct Simulated {
  struct Stage {
    std::string name;
    std::int64_t ns;
    std::uint64_t bytes;
  };
  std::vector<Stage> stages;  ///< after "read"
  std::int64_t read_ns = 0;   ///< from the request to the answer
  std::uint64_t read_bytes = 0;
  std::size_t reads_in_flight = 0;  ///< 0: as many as the open batches have
  std::size_t threads = 1;
  std::size_t batch_size = 8;
  std::size_t batches_ahead = 2;
  std::int64_t consumer_ns = 0;  ///< a batch
};

/// What the loader reports, at the moment at which the consumer has taken batch `count`.
class SimulatedRun {
 public:
  explicit SimulatedRun(const Simulated& pipeline, std::size_t batch_count) : pipeline_(pipeline) {
    const std::size_t most = pipeline.batches_ahead * pipeline.batch_size;
    const std::size_t reads = pipeline.reads_in_flight == 0 ? most : std::min(most, pipeline.reads_in_flight);
    Moments read_free;
    Moments thread_free;
    for (std::size_t i = 0; i < reads; ++i) read_free.push(0);
    for (std::size_t i = 0; i < pipeline.threads; ++i) thread_free.push(0);
    std::int64_t work = 0;
    for (const Simulated::Stage& stage : pipeline.stages) work += stage.ns;
    std::int64_t consumer_free = 0;
    std::int64_t waited = 0;
    for (std::size_t batch = 0; batch < batch_count; ++batch) {
      // A batch is opened when the one `batches_ahead` before it is taken.
      const std::int64_t opened = batch < pipeline.batches_ahead ? 0 : taken_[batch - pipeline.batches_ahead];
      std::int64_t complete = opened;
      for (std::size_t row = 0; row < pipeline.batch_size; ++row) {
        const std::int64_t answered = std::max(opened, pop(read_free)) + pipeline.read_ns;
        read_free.push(answered);
        const std::int64_t done = std::max(answered, pop(thread_free)) + work;
        thread_free.push(done);
        complete = std::max(complete, done);
      }
      const std::int64_t take = std::max(complete, consumer_free);
      waited += take - consumer_free;
      taken_.push_back(take);
      waited_.push_back(waited);
      consumer_free = take + pipeline.consumer_ns;
    }
  }

  LoaderReport report(std::size_t batch) const {
    LoaderReport report;
    const std::uint64_t samples = batch * pipeline_.batch_size;
    const auto seconds = [&](std::int64_t ns) { return static_cast<double>(samples) * static_cast<double>(ns) * 1e-9; };
    report.stages.push_back({.name = "read",
                             .count = samples,
                             .seconds = 0,
                             .bytes = samples * pipeline_.read_bytes,
                             .wait_seconds = seconds(pipeline_.read_ns)});
    for (const Simulated::Stage& stage : pipeline_.stages) {
      report.stages.push_back(
          {.name = stage.name, .count = samples, .seconds = seconds(stage.ns), .bytes = samples * stage.bytes});
    }
    report.samples = samples;
    report.batches = batch;
    report.seconds = static_cast<double>(taken_[batch]) * 1e-9;
    report.wait_seconds = static_cast<double>(waited_[batch]) * 1e-9;
    report.knobs = {pipeline_.threads, 0, pipeline_.batches_ahead, pipeline_.reads_in_flight};
    return report;
  }
  /// Samples a second between two batches.
  double rate(std::size_t from, std::size_t to) const {
    return static_cast<double>((to - from) * pipeline_.batch_size) /
           (static_cast<double>(taken_[to] - taken_[from]) * 1e-9);
  }

 private:
  using Moments = std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>>;
  static std::int64_t pop(Moments& moments) {
    const std::int64_t earliest = moments.top();
    moments.pop();
    return earliest;
  }

  const Simulated pipeline_;
  std::vector<std::int64_t> taken_;
  std::vector<std::int64_t> waited_;
};

}  // namespace penstock::test
