// The unit of work: consecutive rows of one batch, and where each of them stands on its way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/engine/batch_state.h>
#include <penstock/pipeline/engine/sample_failure.h>
#include <penstock/pipeline/engine/stage_clock.h>
#include <penstock/pipeline/engine/work_queue.h>
#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/order/order.h>
#include <penstock/pipeline/report/trace.h>
#include <penstock/pipeline/row.h>
#include <penstock/pipeline/sample_store.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

class LoaderCore;
struct Block;

/// Stage number of a failure in the source; maps are counted from 0.
inline constexpr std::int32_t kReadStage = -1;

/// Where a row stands on its way.
enum class RowState : std::uint8_t {
  kTodo,     ///< nothing has begun
  kReading,  ///< the source has been asked
  kRead,     ///< its values are there
  kHit,      ///< the cache's values are there
  kWaiting,  ///< another block loads its cache key
  kRefused,  ///< there was no room for it; it is begun again
  kFailed,   ///< the source failed
  kDone,     ///< in the batch, or a failure
};

/// What a row has to do with the cache.
struct RowCache {
  SampleKey key;
  bool owned = false;  ///< exactly one of commit, fail, abandon is still to be called
  Sample hit;
};

/// What was tried in a row's place, under the policy replace.
struct RowReplaced {
  std::uint32_t attempts = 0;
  std::vector<SampleFailure> failures;  ///< of the sample and of those that were to stand in for it
  std::int32_t first_stage = kReadStage;
  std::uint64_t first_index = 0;
  std::exception_ptr first_error;
};

/// One row of a block; the sink that its source fills.
class BlockRow final : public Sink {
 public:
  std::byte* allocate(std::size_t field, const Shape& shape) override;
  void borrow(std::size_t field, const Shape& shape, const std::byte* data) override;
  void done() override;
  void fail(std::exception_ptr error) override;

  Block* block = nullptr;
  std::uint32_t number = 0;  ///< in the block
  RowState state = RowState::kTodo;
  std::int32_t failed_stage = kReadStage;
  order::Placed placed;
  std::uint64_t read_bytes = 0;           ///< of `memory`
  std::uint64_t source_bytes = 0;         ///< that the source gave, lent ones too
  std::uint64_t wanted_bytes = 0;         ///< what was refused, with what the row held already
  std::vector<ChargedMemory> memory;      ///< what the source was given
  std::unique_ptr<RowCache> cache;        ///< only in pipelines with a cache
  std::unique_ptr<RowReplaced> replaced;  ///< only where the sample failed
  std::exception_ptr error;
  std::chrono::steady_clock::time_point asked;  ///< when the source was, or shortly before

 private:
  void settle(RowState next);
};

/// Answers of the cache to the rows of one block that wait; outlives the block when the loader goes first.
struct CacheAnswers {
  explicit CacheAnswers(Block* of) : block(of) {}
  Mutex mutex;
  Block* block PENSTOCK_GUARDED_BY(mutex);  ///< null once the loader has gone
  std::vector<std::pair<std::uint32_t, std::exception_ptr>> failures PENSTOCK_GUARDED_BY(mutex);
};

struct OpenBatch;

/// A message of the engine. One thread at a time works on it, but its rows may be filled from several.
struct Block final : WorkItem {
  void run() noexcept override;
  LoaderCore* core = nullptr;
  OpenBatch* batch = nullptr;
  std::size_t first_row = 0;  ///< in the batch
  std::size_t row_count = 0;
  bool by_columns = false;  ///< `rows` and `cells` are not used
  std::vector<BlockRow> rows;
  std::vector<Cell> cells;  ///< of the source's fields, row by row

  bool placed = false;      ///< the order has been asked
  bool running = false;     ///< the round's reads have come
  bool one_by_one = false;  ///< the last round was refused room: begin a single row
  std::size_t done_rows = 0;
  std::uint64_t wanted_bytes = 0;  ///< of the row that was refused
  std::uint32_t inline_settled = 0;
  std::uint32_t begun = 0;                ///< rows of this round
  std::size_t begin_at = 0;               ///< the next row to begin in this round, unless it is not due
  bool parked = false;                    ///< before it, until fewer samples are being read
  StageTotals::Total reads;               ///< of the rounds so far, not yet in the loader's totals
  std::atomic<std::uint64_t> wait_ns{0};  ///< of reads that were answered by another thread, likewise
  StageClock::Clock::duration spent{0};   ///< thread time of the rounds so far
  std::atomic<std::uint32_t> reads_due{0};
  std::atomic<std::uint32_t> answers_due{0};
  std::shared_ptr<CacheAnswers> answers;

  /// For a trace.
  TraceAbout about() const noexcept;
};

}  // namespace penstock::engine
