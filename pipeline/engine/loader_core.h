// The engine of one loader: opens batches in order, runs their blocks, and hands them out.
//
// A batch is opened when there is room for one more and a lease for its memory; its blocks are due at once. A block
// goes through rounds. A round begins what it can (cache look-ups and reads), and when the last read has come runs the
// maps of those rows and writes them into the batch. Rows that found no room, or wait for a cache key that somebody
// else loads, are left for a later round: between rounds a block holds nothing, so nothing can wait in a circle.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/block.h>
#include <penstock/pipeline/engine/chain.h>
#include <penstock/pipeline/engine/recycled_pool.h>
#include <penstock/pipeline/engine/row_buffers.h>
#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/engine/stage_clock.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/order/order.h>

namespace penstock::engine {

/// A failed row of a batch.
struct RowFailure {
  std::size_t row = 0;
  std::int32_t stage = kReadStage;
  std::uint64_t index = 0;
  std::exception_ptr error;
};

/// A batch being filled or ready.
struct OpenBatch {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;       ///< in the epoch
  std::size_t next_row = 0;      ///< the next to be delivered; at first the first
  std::size_t end_row = 0;       ///< one past the last
  std::size_t blocks_begun = 0;  ///< not yet finished
  std::shared_ptr<LentBlock> lent;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<RowFailure> failures;  ///< by row, once the batch is ready
};

/// What the maps run with: taken from a free list for a round.
struct RowWorker {
  RowWorker(RowBuffers::Charger charger, std::uint64_t max_sample_bytes)
      : buffers(std::move(charger), max_sample_bytes), row(buffers) {}
  RowBuffers buffers;
  Row row;
  std::vector<RowBuffers::Place> places;
  Draw no_draw{0, 0, 0, 0};  ///< for maps that do not draw
};

/// Runs one plan for one Loader. `take` from one thread at a time; everything else may be called from any thread.
class LoaderCore final : public WorkLane, public std::enable_shared_from_this<LoaderCore> {
 public:
  LoaderCore(RuntimeState& runtime, std::shared_ptr<const Plan> plan, const LoaderOptions& options);
  /// To be called once after construction.
  void start();
  /// Ends all work and waits for what has begun; after that nothing of the loader runs.
  void shutdown();
  /// Ends all work; does not wait.
  void stop();

  /// The next result; nothing only when `wait` is false. A stop of the loader or by `token` is Stopped, thrown.
  std::optional<NextResult> take(bool wait, const std::stop_token& token);
  /// Opens batches as far as there is room.
  void pump();

  std::uint64_t slots_per_epoch() const noexcept { return order_.size(); }
  std::uint64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  std::uint64_t dropped_per_epoch() const noexcept { return order_.size() - delivered_per_epoch_; }
  const BatchLayout& layout() const noexcept { return chain_.layout; }
  Position position() const noexcept;
  LoaderReport report() const;

  void run(Block& block) override;
  void room_freed() override;
  void trim() override;

  // For the rows of blocks.
  const Chain& chain() const noexcept { return chain_; }
  std::uint64_t max_sample_bytes() const noexcept { return options_.max_sample_bytes; }
  /// Charges `bytes` to the guaranteed share or to what is over; asks for unused memory back before it gives up.
  Charge charge(std::uint64_t bytes);
  /// The last read of the block's round has come.
  void reads_complete(Block& block);
  /// Place of `field` of the batch in the row `row` of the block.
  std::byte* place(const Block& block, std::size_t row, std::size_t field) const noexcept;

 private:
  using Clock = StageClock::Clock;

  void fill();
  std::unique_ptr<OpenBatch> describe_next_batch();
  void cut_into_blocks(OpenBatch& batch);

  void begin_round(Block& block);
  void take_answers(Block& block);
  bool look_up(BlockRow& row);
  void answered(Block& block);
  void run_round(Block& block);
  void run_row(BlockRow& row, RowWorker& worker, StageClock& clock);
  void run_maps(BlockRow& row, RowWorker& worker, StageClock& clock, std::int32_t& stage);
  void set_up_row(const BlockRow& row, Row& target) const;
  void set_up_kept(const BlockRow& row, Row& target) const;
  void pass_cache(BlockRow& row, RowWorker& worker);
  void write_row(const RowWorker& worker, std::int32_t& stage) const;
  void commit(BlockRow& row, const Row& values);
  void fail_row(BlockRow& row, std::int32_t stage, std::exception_ptr error);
  void put_back(BlockRow& row);
  void end_round(Block& block, std::size_t refused, std::size_t waiting);
  void finish_locked(Block& block);
  void wake_starved_locked();
  void set_starving_locked(bool starving);
  void leave_locked();
  void drop(Block& block);

  std::unique_ptr<RowWorker> take_worker();
  void give_back(std::unique_ptr<RowWorker> worker);

  std::exception_ptr sample_error(const RowFailure& failure) const;
  void look_out() const noexcept;
  bool held_by_caller_locked() const;
  std::exception_ptr held_error() const;
  bool epochs_ended() const noexcept;

  RuntimeState& runtime_;
  const std::shared_ptr<const Plan> plan_;
  const LoaderOptions options_;
  const Chain chain_;
  const std::shared_ptr<const BatchLayout> layout_;
  const order::Order order_;
  std::uint64_t batches_per_epoch_ = 0;
  std::uint64_t delivered_per_epoch_ = 0;  // slots that reach a batch
  std::size_t open_limit_ = 0;
  std::shared_ptr<BudgetShare> share_;
  std::shared_ptr<RecycledPool> own_pool_;  // null when the memory is the user's
  std::shared_ptr<BatchMemory> memory_;
  std::size_t memory_blocks_ = 0;
  const std::shared_ptr<const void> lent_count_ = std::make_shared<char>();

  std::atomic<bool> stopped_{false};
  std::atomic<std::uint32_t> pump_requests_{0};
  std::atomic<bool> starving_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<std::unique_ptr<OpenBatch>> open_;
  std::vector<Block*> starved_;  // oldest first
  bool pool_starved_ = false;    // the budget had no room for a block of the pool
  bool lease_refused_ = false;
  std::size_t active_ = 0;        // blocks in a round, or due for one
  std::uint64_t fill_epoch_ = 0;  // of the next batch to open
  std::uint64_t fill_slot_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t take_epoch_ = 0;  // of the next row to deliver
  std::uint64_t take_slot_ = 0;
  Position position_;
  std::uint64_t samples_delivered_ = 0;
  std::uint64_t batches_delivered_ = 0;
  double wait_seconds_ = 0;
  std::vector<std::unique_ptr<Block>> spare_blocks_;

  Mutex workers_mutex_;
  std::vector<std::unique_ptr<RowWorker>> workers_ PENSTOCK_GUARDED_BY(workers_mutex_);
  StageTotals totals_;
};

}  // namespace penstock::engine
