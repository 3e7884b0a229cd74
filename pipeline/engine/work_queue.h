// Which block runs next, over all loaders: that of a loader whose consumer waits, then of the highest declared
// priority, then of the loader with the fewest batches ready; within a loader the oldest.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <vector>

#include <penstock/pipeline/mutex.h>

namespace penstock::engine {

struct Block;

/// A loader's place in the queue, and what the runtime asks of the loader.
class WorkLane {
 public:
  explicit WorkLane(int priority) : priority_(priority) {}
  virtual ~WorkLane() = default;
  /// Goes on with a block that was due. Called by one worker for a block at a time.
  virtual void run(Block& block) = 0;
  /// Bytes of the budget came back.
  virtual void room_freed() = 0;
  /// Gives back memory that is kept for reuse and not in use.
  virtual void trim() = 0;

 protected:
  std::atomic<bool> consumer_waits_{false};
  std::atomic<std::size_t> ready_batches_{0};

 private:
  friend class WorkQueue;
  const int priority_;
  std::deque<Block*> due_;  // oldest first; guarded by the queue's mutex
};

/// A block and the lane that runs it; empty when nothing is due.
struct Due {
  WorkLane* lane = nullptr;
  Block* block = nullptr;
};

/// Blocks that are due. Safe for concurrent use.
class WorkQueue {
 public:
  void add(WorkLane& lane);
  void remove(WorkLane& lane);
  /// Within its lane the block with the smallest `sequence` goes first.
  void push(WorkLane& lane, Block& block);
  Due pop();
  std::vector<Block*> withdraw(WorkLane& lane);

 private:
  Mutex mutex_;
  std::vector<WorkLane*> lanes_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::engine
