// Runs a pipeline and hands out its batches in order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/error_policy.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/pipeline/tuning.h>

namespace penstock {

class Trace;

/// How a loader runs. Only `epoch_count`, `seed` and `start` change what it delivers.
struct LoaderOptions {
  /// Epochs that will be asked for; nothing is prefetched past the last. Nothing: without end.
  std::optional<std::uint64_t> epoch_count = {};
  /// Which loader goes first when threads are short: the larger. A loader whose consumer waits goes before that.
  int priority = 0;
  /// Seed of every `Draw`, and of shuffles that name none.
  std::uint64_t seed = 0;
  /// The most memory that one sample may take on its way, outside its row: file bytes, decoded pixels, scratch. A
  /// larger one is SampleError(kTooLarge).
  std::uint64_t max_sample_bytes = std::uint64_t{64} << 20;
  /// Where batches are written; null: a recycled pool of the loader's own, inside the runtime's budget.
  std::shared_ptr<BatchMemory> memory = {};
  /// Where to start: `Batch::position()` of an earlier run, or what `read_state` read.
  Position start = {};
  /// Samples in a block; 0: chosen by the engine from measured cost. Changes speed, never results.
  std::size_t block_size = 0;
  /// The most samples being read at once; 0: as many as the open batches have.
  std::size_t reads_in_flight = 0;
  /// The most bytes that stages which keep samples (a stream's shuffle buffer, window, bucket, interleave, batches on
  /// their way to a later stage) may hold together. More is an Error that names the stage. Part of the guaranteed
  /// share, unless the plan has no such stage.
  std::uint64_t kept_bytes = std::uint64_t{64} << 20;
  /// Turns `threads`, `block_size`, `batches_ahead` and `reads_in_flight` by itself.
  Autotune autotune = {};
  /// Head-room: after this many batches, `next()` hands the same ones out again for ever without any work: the
  /// consumer's ceiling. 0: off. (The loader's own ceiling is a consumer that only calls `next()`.)
  std::size_t replay_staged_batches = 0;
  /// Where slices of work are recorded; null: nowhere.
  std::shared_ptr<Trace> trace = {};
  /// A read that takes longer is SampleError(kTimedOut) in its place; zero: wait for ever. What the source does for it
  /// goes on in the background and is discarded. Only for flat plans (plan.h).
  std::chrono::milliseconds read_timeout{0};
};

/// What `next()` would do without waiting: exactly one of a batch, an error to throw, or (both empty) the epoch's end.
struct NextResult {
  std::optional<Batch> batch;
  std::exception_ptr error;
};

/// One stage so far.
struct StageReport {
  std::string name;
  std::uint64_t count = 0;  ///< samples
  double seconds = 0;       ///< thread time spent in it, summed over threads
  std::uint64_t bytes = 0;  ///< that it wrote; for "read": that the source gave
  double wait_seconds = 0;  ///< "read": between the request and the answer, summed over samples; else 0
};

/// A loader so far.
struct LoaderReport {
  std::vector<StageReport> stages;  ///< "read", then the stages in order
  std::uint64_t samples = 0;        ///< delivered
  std::uint64_t batches = 0;        ///< delivered
  double seconds = 0;               ///< since the first batch was begun
  double wait_seconds = 0;          ///< the consumer's, inside next()
  double ready_share = 0;           ///< queue fill: share of `knobs.batches_ahead` that was ready, over all `next()`
  std::size_t reads_most = 0;       ///< the most reads in flight at once
  std::uint64_t skipped = 0;        ///< samples
  std::uint64_t replaced = 0;       ///< samples
  Knobs knobs;                      ///< at present
  std::vector<TuningDecision> decisions;
};

/// Runs a pipeline on a runtime. Move-only. `next()` and `poll()` from one thread at a time (checked:
/// std::logic_error). Destruction at any moment ends everything that runs for this loader; it waits at most for the
/// longest user function.
/// A map must not wait for a loader of its own runtime: when every worker does, none is left to fill it.
class Loader {
 public:
  class EpochRange;
  /// Throws InvalidArgument: no batch stage, a size of 0, a budget that cannot hold the loader's guaranteed share (with
  /// the arithmetic), a start beyond the end. No sample is read before `warm_up` or the first `next`.
  Loader(const Runtime& runtime, const Pipeline& pipeline, LoaderOptions options = {});
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  /// The next batch; nothing at the end of an epoch, after which the following call starts the next one (after the last
  /// epoch: nothing, for ever). Blocks. Throws SampleError in the sample's place: the rows before it have arrived as a
  /// short batch, the rows after it follow as another, up to the batch's boundary; Stopped; BudgetHeldByCaller.
  std::optional<Batch> next();
  /// The same; throws Stopped when `stop` is requested while it waits.
  std::optional<Batch> next(std::stop_token stop);
  /// What `next()` would return, if it need not wait; nothing otherwise. Never blocks; starts the filling.
  std::optional<NextResult> poll();
  /// `callback` is called once with what `next()` would have returned: on a worker, never from inside this call and
  /// never under a lock, so it must be short; it must not throw, and may ask for the next one. One call at a time, none
  /// beside `next()` or `poll()` (std::logic_error). `stop()` completes it with Stopped, and so does the loader's end
  /// (then on the destructor's thread); after the destructor has returned it is not running.
  void on_next(std::function<void(NextResult)> callback);
  /// Takes a callback back that has not begun: true, and it will not be called; the batch stays for the next call.
  bool cancel_on_next();
  /// One epoch for a range-for: `for (const Batch& batch : loader.epoch())`. Throws as `next()` does.
  EpochRange epoch();
  /// Begins to fill the guaranteed share of batches. Returns at once.
  void warm_up();
  /// Ends all work; a waiting and every later `next()` throws Stopped. From any thread. Does not wait.
  void stop();

  /// Batches an epoch (with a short last one where kept); nothing for a stream.
  std::optional<std::uint64_t> batches_per_epoch() const;
  /// Samples an epoch that LastBatch::kDrop leaves out.
  std::uint64_t dropped_per_epoch() const;
  const BatchLayout& layout() const noexcept;
  /// Position after the last batch that `next()` returned.
  Position position() const noexcept;
  /// `position` as JSON text with what it belongs to; `read_state` reads it back. At most 4 KB, except that a `bucket`
  /// lists what waits in it. Throws InvalidArgument, with its name, when a stage has a state that only its user could
  /// save (`scan`, `generator`) and no function for that.
  std::string state() const;
  std::string state(const Position& position) const;
  LoaderReport report() const;
  /// Samples that were skipped or replaced, in the order of delivery (the first 100,000).
  std::vector<SampleFault> faults() const;
  Knobs knobs() const;
  /// Turns what is not 0. Never changes what is delivered. Throws InvalidArgument for what the budget cannot hold.
  void turn(const Knobs& knobs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Batches until the epoch's end, as an input range. Does not outlive its loader.
class Loader::EpochRange {
 public:
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(Loader* loader) : loader_(loader), batch_(loader->next()) {}
    const Batch& operator*() const noexcept { return *batch_; }
    Iterator& operator++() {
      batch_.reset();
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& at, std::default_sentinel_t) noexcept { return !at.batch_; }

   private:
    Loader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  explicit EpochRange(Loader* loader) : loader_(loader) {}
  Iterator begin() { return Iterator(loader_); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  Loader* loader_;
};

inline Loader::EpochRange Loader::epoch() { return EpochRange(this); }

/// What `Loader::state` wrote, as a start for a loader of `pipeline`: with any thread count, and with another rank or
/// world size where the plan's last stage of order is `shard`. Throws InvalidArgument when `text` is no state or
/// belongs to another plan.
Position read_state(const Pipeline& pipeline, const std::string& text);

}  // namespace penstock
