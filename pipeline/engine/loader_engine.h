// What every engine behind a Loader has in common: how its results are waited for. A kind of engine says how a result
// is made: LoaderCore for plans whose rows can be placed at once, StreamCore for all others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include <penstock/pipeline/engine/async_take.h>
#include <penstock/pipeline/engine/work_queue.h>
#include <penstock/pipeline/loader.h>

namespace penstock::engine {

/// Runs one plan for one Loader. `take` from one thread at a time; everything else may be called from any thread.
class LoaderEngine : public WorkLane {
 public:
  explicit LoaderEngine(int priority) : WorkLane(priority) {}

  /// To be called once after construction.
  virtual void start() = 0;
  /// Ends all work and waits for what has begun; after that nothing of the loader runs.
  virtual void shutdown() = 0;
  /// Ends all work; does not wait. A waiting `take` throws Stopped.
  virtual void stop() = 0;
  /// Opens batches as far as there is room. Does not wait.
  virtual void pump() = 0;

  /// The next result; nothing only when `wait` is false. A stop of the loader or by `token` is Stopped, thrown.
  std::optional<NextResult> take(bool wait, const std::stop_token& token);

  /// What Loader::on_next arms; begins to fill. `take_now`, always the same, does `take(false, {})` and what goes with
  /// it, on a worker of `runtime`, and never while `take` runs elsewhere.
  std::shared_ptr<AsyncTake> async_take(RuntimeState& runtime, AsyncTake::TakeNow take_now);
  /// As Loader::cancel_on_next.
  bool cancel_on_next();
  /// A callback is pending: `take` may not be called.
  bool on_next_pending() const noexcept;
  /// After `stop`, before `shutdown`: completes the callback, and waits for it.
  void end_on_next();

  virtual std::optional<std::uint64_t> batches_per_epoch() const = 0;
  virtual std::uint64_t dropped_per_epoch() const = 0;
  /// Layout of every batch; where shapes differ from batch to batch, of the fields with the dimensions that are known.
  virtual const BatchLayout& layout() const noexcept = 0;
  virtual Position position() const = 0;
  /// All but `wait_seconds`, which this class counts.
  virtual LoaderReport report() const = 0;
  /// Samples that were skipped or replaced so far, in the order of delivery.
  virtual std::vector<SampleFault> faults() const = 0;
  /// What can be turned while it runs, and does not change results.
  virtual Knobs knobs() const = 0;
  virtual void turn(const Knobs& knobs) = 0;

  /// The consumer's time inside `take` without a batch.
  double wait_seconds() const noexcept { return static_cast<double>(wait_ns_.load(std::memory_order_relaxed)) * 1e-9; }

 protected:
  /// The next result if there is one. Never blocks. Throws Stopped.
  virtual std::optional<NextResult> try_take() = 0;
  /// To be called after a result may have come about, or a stop: a waiting `take` looks again. May be called under any
  /// lock.
  void notify() noexcept;

 private:
  void look_out(std::uint32_t seen) const noexcept;

  std::atomic<std::uint32_t> signal_{0};
  std::atomic<std::uint64_t> wait_ns_{0};
  std::shared_ptr<AsyncTake> async_take_;           // made by the first `async_take`
  std::atomic<AsyncTake*> notified_take_{nullptr};  // the same, for `notify`
};

}  // namespace penstock::engine
