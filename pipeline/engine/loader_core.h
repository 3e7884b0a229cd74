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
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/block.h>
#include <penstock/pipeline/engine/chain.h>
#include <penstock/pipeline/engine/column_pass.h>
#include <penstock/pipeline/engine/fault_log.h>
#include <penstock/pipeline/engine/loader_engine.h>
#include <penstock/pipeline/engine/recycled_pool.h>
#include <penstock/pipeline/engine/row_buffers.h>
#include <penstock/pipeline/engine/row_cost.h>
#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/engine/stage_clock.h>
#include <penstock/pipeline/engine/stage_trace.h>
#include <penstock/pipeline/engine/timed_reads.h>
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

/// A row whose sample another one stands in for.
struct ReplacedRow {
  std::size_t row = 0;
  std::uint64_t index = 0;  ///< of the sample that is there now
  std::vector<SampleFailure> failures;
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
  std::vector<RowFailure> failures;   ///< by row, once the batch is ready
  std::vector<ReplacedRow> replaced;  ///< likewise
};

/// What the maps run with: taken from a free list for a round.
struct RowWorker {
  RowWorker(RowBuffers::Charger charger, std::uint64_t max_sample_bytes)
      : buffers(std::move(charger), max_sample_bytes), row(buffers) {}
  RowBuffers buffers;
  Row row;
  std::vector<RowBuffers::Place> places;
  Draw no_draw{0, 0, 0, 0};  ///< for maps that do not draw
  ColumnScratch columns;
  std::vector<std::byte*> column_places;
  std::vector<StageTotals::Total> totals;
};

/// Runs a flat plan: one source that knows its size, stages of order, maps, a cache, one batch of known shapes.
class LoaderCore final : public LoaderEngine, public std::enable_shared_from_this<LoaderCore> {
 public:
  LoaderCore(RuntimeState& runtime, std::shared_ptr<const Plan> plan, const LoaderOptions& options);
  void start() override;
  void shutdown() override;
  void stop() override;
  void pump() override;

  std::optional<std::uint64_t> batches_per_epoch() const override { return batches_per_epoch_; }
  std::uint64_t dropped_per_epoch() const override { return order_.size() - delivered_per_epoch_; }
  const BatchLayout& layout() const noexcept override { return chain_.layout; }
  Position position() const override;
  LoaderReport report() const override;
  std::vector<SampleFault> faults() const override { return faults_.get(); }
  Knobs knobs() const override;
  void turn(const Knobs& knobs) override;

  void run(Block& block);
  void room_freed() override;
  void trim() override;

  // For the rows of blocks.
  const Chain& chain() const noexcept { return chain_; }
  std::uint64_t max_sample_bytes() const noexcept { return options_.max_sample_bytes; }
  /// Charges `bytes` to the guaranteed share or to what is over; asks for unused memory back before it gives up.
  Charge charge(std::uint64_t bytes);
  const StageTrace& trace() const noexcept { return trace_; }
  /// Sources write straight into the batch; not where they may write long after the batch has gone.
  bool reads_into_batch() const noexcept { return !timed_reads_; }
  /// A read has been answered by another thread than the one that began it. Before `reads_complete`.
  void read_answered(const BlockRow& row);
  /// The last read of the block's round has come.
  void reads_complete(Block& block);
  /// Place of `field` of the batch in the row `row` of the block.
  std::byte* place(const Block& block, std::size_t row, std::size_t field) const noexcept;

 private:
  using Clock = StageClock::Clock;

  std::optional<NextResult> try_take() override;
  void fill();
  std::unique_ptr<OpenBatch> describe_next_batch();
  void cut_into_blocks(OpenBatch& batch);

  void begin_round(Block& block);
  void run_columns(Block& block);
  void begin_rows(Block& block, Clock::time_point begin);
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
  void replace_row(BlockRow& row);
  std::size_t count_replaced_locked(OpenBatch& batch, std::size_t end);
  void put_back(BlockRow& row);
  void end_round(Block& block, std::size_t refused, std::size_t waiting);
  void finish_locked(Block& block);
  void wake_starved_locked();
  void set_starving_locked(bool starving);
  void leave_locked();
  bool all_begun(Block& block);
  void drop_due(Block& block);
  void drop(Block& block);

  // How many samples are being read at once: engine/reads_in_flight.cpp.
  bool try_begin_read(const Block& block);
  void count_reads(std::int64_t begun);
  void end_read();
  void park(Block& block);
  void wake_parked_locked();
  void set_batches_ahead(std::size_t batches);

  std::unique_ptr<RowWorker> take_worker();
  void give_back(std::unique_ptr<RowWorker> worker);

  std::exception_ptr sample_error(const RowFailure& failure) const;
  bool held_by_caller_locked() const;
  std::exception_ptr held_error() const;
  bool epochs_ended() const noexcept;

  RuntimeState& runtime_;
  const std::shared_ptr<const Plan> plan_;
  const LoaderOptions options_;
  const Chain chain_;
  const std::shared_ptr<const BatchLayout> layout_;
  const std::shared_ptr<const order::Order> shared_order_;
  const order::Order& order_;
  std::uint64_t batches_per_epoch_ = 0;
  std::uint64_t delivered_per_epoch_ = 0;  // slots that reach a batch
  std::size_t open_limit_ = 0;             // guarded by mutex_
  std::size_t first_open_limit_ = 0;       // the plan's
  std::shared_ptr<BudgetShare> share_;
  std::shared_ptr<RecycledPool> own_pool_;  // null when the memory is the user's
  std::shared_ptr<BatchMemory> memory_;
  std::size_t memory_blocks_ = 0;
  const std::shared_ptr<const void> lent_count_ = std::make_shared<char>();

  std::atomic<bool> stopped_{false};
  std::atomic<std::uint32_t> pump_requests_{0};
  std::atomic<bool> starving_{false};

  std::unique_ptr<TimedReads> timed_reads_;  // where there is a limit
  std::atomic<std::int64_t> reads_{0};       // being read
  std::atomic<std::int64_t> reads_most_{0};
  std::atomic<std::size_t> reads_limit_;  // 0: none
  std::atomic<bool> reads_wait_{false};   // some read was not answered at once
  std::atomic<std::uint64_t> oldest_parked_{kNoneParked};
  static constexpr std::uint64_t kNoneParked = ~std::uint64_t{0};
  std::mutex turning_;  // one turn at a time

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable idle_;
  std::deque<std::unique_ptr<OpenBatch>> open_;
  std::vector<Block*> starved_;  // oldest first
  std::vector<Block*> parked_;   // wait until fewer samples are being read; oldest first
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
  std::optional<Clock::time_point> begin_;  // of the first batch
  double ready_shares_ = 0;                 // summed over `looks_`
  std::uint64_t looks_ = 0;                 // calls of next()
  FaultLog faults_;
  std::uint64_t replaced_ = 0;                  // failures, in batches delivered
  std::optional<SampleFailure> limit_failure_;  // the one beyond the policy's limit: nothing more is delivered
  Knobs knobs_;
  std::vector<std::unique_ptr<Block>> spare_blocks_;

  Mutex workers_mutex_;
  std::vector<std::unique_ptr<RowWorker>> workers_ PENSTOCK_GUARDED_BY(workers_mutex_);
  StageTotals totals_;
  RowCost row_cost_;
  const StageTrace trace_;
};

}  // namespace penstock::engine
