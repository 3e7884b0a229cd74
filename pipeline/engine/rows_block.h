// Consecutive rows that a worker takes through the maps together, and where each of them stands on its way.
//
// A block goes through rounds, as a block of a batch does: a round begins what it can (cache look-ups and reads) and,
// when the last read has come, runs the maps of those rows. Rows that found no room are put back as if they had not
// begun; between rounds they hold nothing. Only the first unfinished row of the oldest block, in a round of its own,
// may use the guaranteed bytes; all others use what is over.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/engine/row_buffers.h>
#include <penstock/pipeline/engine/rows_program.h>
#include <penstock/pipeline/engine/work_queue.h>
#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/order/order.h>
#include <penstock/pipeline/row.h>
#include <penstock/pipeline/sample_store.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

/// Where a leaf's rows come from.
struct RowsSource {
  std::shared_ptr<const Source> source;
  std::uint32_t number = 0;  ///< of the source in the stream
  std::shared_ptr<const order::Order> order;
  StageCounter* counter = nullptr;  ///< of "read"
};

/// What the blocks of one RowsOperator share. Outlives the operator while blocks are on their way.
struct RowsWork {
  RowsWork(StreamContext& of, RowsProgram bound, std::optional<RowsSource> from);

  /// A charge for what a row holds on its way, or for its result. Empty: no room.
  Charge charge(bool guaranteed, std::uint64_t bytes) const;
  Charge charge_result(bool guaranteed, std::uint64_t bytes) const;
  void count_cost(std::uint64_t ns_per_row);

  StreamContext& context;  ///< touched only by what is counted by `submit`
  const std::function<bool(WorkItem& item)> submit;
  const std::function<void()> finished;
  const RowsProgram program;
  const std::optional<RowsSource> leaf;
  std::shared_ptr<BudgetShare> working;
  std::shared_ptr<BudgetShare> results;
  std::atomic<std::size_t> unread{0};     ///< rows of blocks whose reads have not all come
  std::atomic<std::size_t> reads_out{0};  ///< reads in flight
  std::atomic<std::uint64_t> row_ns{0};   ///< what a row costs, or waits for its bytes; smoothed; 0: not yet known
};

class RowsBlock;

/// One row; the sink that its source fills.
class RowsRow final : public Sink {
 public:
  enum class State : std::uint8_t {
    kTodo,     ///< nothing has begun
    kReading,  ///< the source has been asked
    kRead,     ///< its values are there
    kHit,      ///< the cache's values are there
    kWaiting,  ///< somebody else loads its cache key
    kRefused,  ///< there was no room for it
    kFailed,   ///< the source, or the load of its key, failed
    kDone,     ///< `element` is what goes on, unless it was dropped
  };
  std::byte* allocate(std::size_t field, const Shape& shape) override;
  void borrow(std::size_t field, const Shape& shape, const std::byte* data) override;
  void done() override;
  void fail(std::exception_ptr failure) override;

  RowsBlock* block = nullptr;
  std::uint32_t number = 0;  ///< in the block
  State state = State::kTodo;
  bool dropped = false;
  Element element;  ///< over an input: what came, until the row is done
  // Of a leaf, on the way.
  std::vector<Cell> cells;
  std::vector<bool> borrowed;
  std::vector<ChargedMemory> memory;  ///< what the source was given
  std::uint64_t read_bytes = 0;       ///< of `memory`
  std::chrono::steady_clock::time_point asked;
  std::uint64_t called_ns = 0;  ///< inside the source
  std::uint64_t waited_ns = 0;  ///< for its bytes, when they did not come at once
  // Where the result is written, and what was refused.
  Charge result_charge;
  std::shared_ptr<std::byte> result;
  std::uint64_t wanted_working = 0;
  std::uint64_t wanted_result = 0;
  // The cache.
  SampleKey key;
  bool owned = false;  ///< exactly one of commit, fail, abandon is still to be called
  Sample hit;
  // The failure.
  std::int32_t failed_stage = -1;
  std::exception_ptr error;

 private:
  void settle(State next);
};

/// One thread at a time works on it; its rows may be filled from several. While `busy`, it is not the operator's.
class RowsBlock final : public WorkItem, public std::enable_shared_from_this<RowsBlock> {
 public:
  RowsBlock(std::shared_ptr<RowsWork> work, const Pass& pass) : work_(std::move(work)), pass_(pass) {}

  // For the operator, when not busy.
  bool busy() const noexcept { return busy_.load(std::memory_order_acquire); }
  /// Begins a round; of the first unfinished row only, with the guaranteed bytes, when `single`. False: the stream
  /// ends.
  bool launch(bool single);
  /// Nobody waits for it any more, at any time: it ends what it does, holds nothing and goes.
  void abandon();
  std::size_t first_unfinished(std::size_t from) const noexcept;
  bool refused() const noexcept { return refused_; }
  std::uint64_t wanted_working() const noexcept { return wanted_working_; }
  std::uint64_t wanted_result() const noexcept { return wanted_result_; }

  std::vector<RowsRow> rows;
  std::uint64_t first_slot = 0;  ///< of a leaf
  Cursor before;                 ///< over an input: its cursor from before the first row
  bool one_by_one = false;       ///< it was refused as the oldest block
  bool noted = false;            ///< its refusal has been taken into account

  // For its rows.
  const std::shared_ptr<RowsWork>& work() const noexcept { return work_; }
  bool single() const noexcept { return single_; }
  /// Of the row that is settled: begun by this very thread, which counts it.
  bool count_inline() noexcept;
  void settled_elsewhere();
  /// Gives the row memory for its result. Throws NoRoom, which is noted in the row.
  void make_result(RowsRow& row) const;

  void run() noexcept override;

 private:
  struct Laps;
  /// Answers of the cache to rows that wait; outlives the block when the operator goes first.
  struct Answers {
    Mutex mutex;
    RowsBlock* block PENSTOCK_GUARDED_BY(mutex) = nullptr;
    std::vector<std::pair<std::uint32_t, std::exception_ptr>> failures PENSTOCK_GUARDED_BY(mutex);
  };
  class BeginScope;

  bool ended() const noexcept;
  void begin_round();
  void place_rows();
  void read(RowsRow& row);
  bool look_up(RowsRow& row);
  void take_answers();
  void answered();
  void run_round();
  void run_row(RowsRow& row, RowBuffers& buffers, Row& values, std::vector<RowBuffers::Place>& places, Laps& laps);
  void run_maps(RowsRow& row, RowBuffers& buffers, Row& values, std::vector<RowBuffers::Place>& places, Laps& laps,
                std::int32_t& stage);
  void set_up(const RowsRow& row, Row& values) const;
  void set_up_kept(const RowsRow& row, Row& values) const;
  void commit(RowsRow& row, const Row& values);
  void finish_row(RowsRow& row, const Row& values, std::int32_t& stage) const;
  std::optional<Tensor> shared_tensor(const RowsRow& row, const Cell& cell) const;
  void fail_row(RowsRow& row, std::int32_t stage, std::exception_ptr error);
  void put_back(RowsRow& row);
  void let_go(RowsRow& row) const;
  void drop();
  void end_round(std::size_t waiting);
  void leave(bool idle, std::shared_ptr<RowsBlock> keep);
  void count_read() noexcept;

  const std::shared_ptr<RowsWork> work_;
  const Pass pass_;
  std::shared_ptr<RowsBlock> self_;  // while it is due or in a round
  std::atomic<bool> busy_{false};
  std::atomic<bool> abandoned_{false};
  bool placed_ = false;
  bool reads_in_ = false;  // the round's reads have come
  bool single_ = false;
  bool refused_ = false;  // the last round left rows for which there was no room
  std::uint64_t wanted_working_ = 0;
  std::uint64_t wanted_result_ = 0;
  std::size_t unread_ = 0;  // of RowsWork::unread
  std::uint32_t inline_settled_ = 0;
  std::atomic<std::uint32_t> reads_due_{0};
  std::atomic<std::uint32_t> answers_due_{0};
  std::shared_ptr<Answers> answers_;  // with a cache
};

}  // namespace penstock::engine
