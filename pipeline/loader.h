// Runs a pipeline and hands out its batches in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/runtime.h>

namespace penstock {

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
  /// Where to start: `Batch::position()` of an earlier run, or what `Loader::parse_state` read.
  Position start = {};
  /// Samples in a block; 0: chosen by the engine. Changes speed, never results.
  std::size_t block_size = 0;
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
};

/// A loader so far.
struct LoaderReport {
  std::vector<StageReport> stages;  ///< "read", then the maps, in order
  std::uint64_t samples = 0;        ///< delivered
  std::uint64_t batches = 0;        ///< delivered
  double wait_seconds = 0;          ///< the consumer's, inside next()
};

/// Runs a pipeline on a runtime. Move-only. `next()` and `poll()` from one thread at a time (checked:
/// std::logic_error). Destruction at any moment ends everything that runs for this loader; it waits at most for the
/// longest user function.
/// A map must not wait for a loader of its own runtime: when every worker does, none is left to fill it.
class Loader {
 public:
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
  /// `position` as JSON text with what it belongs to; `parse_state` reads it back. At most 4 KB.
  std::string state() const;
  std::string state(const Position& position) const;
  /// Throws InvalidArgument when `text` is no state, or belongs to a pipeline of another size.
  Position parse_state(const std::string& text) const;
  LoaderReport report() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
