// The unit of work: consecutive rows of one batch, and where each of them stands on its way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/engine/batch_state.h>
#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/order/order.h>
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
  std::uint64_t read_bytes = 0;       ///< of `memory`
  std::uint64_t wanted_bytes = 0;     ///< what was refused, with what the row held already
  std::vector<ChargedMemory> memory;  ///< what the source was given
  std::unique_ptr<RowCache> cache;    ///< only in pipelines with a cache
  std::exception_ptr error;

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
struct Block {
  LoaderCore* core = nullptr;
  OpenBatch* batch = nullptr;
  std::uint64_t sequence = 0;  ///< age, over all blocks of the loader
  std::size_t first_row = 0;   ///< in the batch
  std::size_t row_count = 0;
  std::vector<BlockRow> rows;
  std::vector<Cell> cells;  ///< of the source's fields, row by row

  bool placed = false;      ///< the order has been asked
  bool running = false;     ///< the round's reads have come
  bool one_by_one = false;  ///< the last round was refused room: begin a single row
  std::size_t done_rows = 0;
  std::uint64_t wanted_bytes = 0;  ///< of the row that was refused
  std::uint32_t inline_settled = 0;
  std::atomic<std::uint32_t> reads_due{0};
  std::atomic<std::uint32_t> answers_due{0};
  std::shared_ptr<CacheAnswers> answers;
};

}  // namespace penstock::engine
