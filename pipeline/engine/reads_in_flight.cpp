// The most samples that a loader reads at once. A block that may not begin its next row is parked; when a read ends the
// oldest parked block goes on. What is being read always ends, so nothing can wait in a circle. Whoever parks looks
// once more after it can be seen, and whoever ends a read looks for parked blocks after he has counted: so one of them
// sees the other.
#include <algorithm>
#include <mutex>

#include <penstock/pipeline/engine/loader_core.h>

namespace penstock::engine {

bool LoaderCore::try_begin_read(const Block& block) {
  if (oldest_parked_.load(std::memory_order_relaxed) < block.sequence) return false;
  const auto limit = static_cast<std::int64_t>(reads_limit_.load(std::memory_order_relaxed));
  std::int64_t seen = reads_.load(std::memory_order_relaxed);
  do {
    if (seen >= limit) return false;
  } while (!reads_.compare_exchange_weak(seen, seen + 1, std::memory_order_seq_cst));
  count_reads(0);
  return true;
}

// Without a limit reads are counted once for all rows of a block, and only those that are not answered at once.
void LoaderCore::count_reads(std::int64_t begun) {
  const std::int64_t now = reads_.fetch_add(begun, std::memory_order_relaxed) + begun;
  std::int64_t most = reads_most_.load(std::memory_order_relaxed);
  while (most < now && !reads_most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

void LoaderCore::end_read() {
  reads_.fetch_sub(1, std::memory_order_seq_cst);
  if (oldest_parked_.load(std::memory_order_seq_cst) == kNoneParked) return;
  const std::lock_guard lock(mutex_);
  wake_parked_locked();
}

void LoaderCore::read_answered(const BlockRow& row) {
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - row.asked);
  row.block->wait_ns.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
  if (!reads_wait_.load(std::memory_order_relaxed)) reads_wait_.store(true, std::memory_order_relaxed);
  end_read();
}

// Waits for its next read to be allowed. The block is another thread's as soon as the lock is gone.
void LoaderCore::park(Block& block) {
  block.parked = true;
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      const auto at = std::find_if(parked_.begin(), parked_.end(),
                                   [&](const Block* other) { return other->sequence > block.sequence; });
      parked_.insert(at, &block);
      oldest_parked_.store(parked_.front()->sequence, std::memory_order_seq_cst);
      wake_parked_locked();
      return;
    }
  }
  drop_due(block);
}

void LoaderCore::wake_parked_locked() {
  if (stopped_) return;
  const auto limit = static_cast<std::int64_t>(reads_limit_.load(std::memory_order_relaxed));
  std::int64_t free = limit - reads_.load(std::memory_order_seq_cst);
  while (!parked_.empty() && (free-- > 0 || limit == 0)) {
    Block& oldest = *parked_.front();
    parked_.erase(parked_.begin());
    runtime_.submit(*this, oldest);
  }
  oldest_parked_.store(parked_.empty() ? kNoneParked : parked_.front()->sequence, std::memory_order_seq_cst);
}

}  // namespace penstock::engine
