// One run of a job: takes the memory, proves the plan, and trains, validates and saves epoch after epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include <penstock/gpu/device_feed.h>
#include <penstock/gpu/memory_accounts.h>
#include <penstock/gpu/preflight.h>
#include <penstock/trainer/checkpoint.h>
#include <penstock/trainer/metrics.h>
#include <penstock/trainer/step_executor.h>
#include <penstock/trainer/train_job.h>

namespace penstock::trainer {

/// Used once, by one thread. All device work is on one compute stream; feeds have their own. The order of an epoch:
/// training, checkpoint (validation pending), validation, row of metrics, `best`.
class TrainRun {
 public:
  /// Throws gpu::PlanRefused and gpu::DeviceMemoryLimit before anything is written.
  TrainRun(TrainJob& job, TrainObserver& observer, std::stop_token stop);
  /// Waits for what is enqueued: memory is given back after that.
  ~TrainRun();
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  TrainResult run();

 private:
  using Clock = std::chrono::steady_clock;

  // One phase with its memory, its program bound to it, and its feed.
  struct Runner {
    const PhaseJob* job = nullptr;
    gpu::Phase account;
    std::shared_ptr<const BoundProgram> program;
    std::uint64_t lease_bytes = 0;
    std::size_t image = 0;  // field in the batch
    std::size_t label = 0;
    double step_seconds = 0;  // of the dry run
    std::optional<gpu::DeviceFeed> feed;
  };
  // Time of a phase so far.
  struct Meter {
    Clock::time_point start = Clock::now();
    double earlier_seconds = 0;
    double wait_seconds = 0;
    std::uint64_t samples = 0;       // of the steps enqueued
    std::uint64_t done_samples = 0;  // of those, known to be done
    double seconds() const;
  };

  void prove();
  Runner make_runner(const PhaseJob& job);
  void dry_run(Runner& runner);
  void open_feed(Runner& runner, Position start, int priority);
  void load_state();
  void train_epoch();
  void validate();
  void enqueue_step(Runner& runner, gpu::DeviceBatch batch, float learning_rate);
  std::optional<gpu::DeviceBatch> next_batch(Runner& runner, Meter& meter);
  void report(const Runner& runner, Meter& meter, std::uint64_t step);
  void clear_metrics(std::uint64_t offset);
  MetricSums read_metrics(std::uint64_t offset);
  void probe_loss();
  [[noreturn]] void refuse_loss(const MetricSums& sums) const;
  const std::byte* read_state();
  void save(CheckpointPhase phase);

  TrainJob& job_;
  TrainObserver& observer_;
  std::stop_token stop_;
  gpu::Device& device_;
  gpu::MemoryAccounts accounts_;
  gpu::JobMemory memory_;
  gpu::Stream stream_;
  gpu::Event step_done_;  // after the step enqueued last
  gpu::Event probe_done_;
  bool step_recorded_ = false;
  bool probe_pending_ = false;
  StepExecutor executor_;
  std::byte* model_ = nullptr;
  std::byte* staging_ = nullptr;  // state, sums of the probe, sums of read_metrics
  std::optional<RunFolder> folder_;
  Runner train_;
  Runner val_;

  CheckpointState state_;  // where the run is
  double best_top1_ = -1;
  Meter epoch_meter_;
  TrainResult result_;
};

}  // namespace penstock::trainer
