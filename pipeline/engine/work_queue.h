// Which work runs next, over all loaders: that of a loader whose consumer waits, then of the highest declared priority,
// then of the loader with the fewest batches ready; within a loader the oldest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <penstock/pipeline/mutex.h>

namespace penstock::engine {

/// Something a worker does for a loader, in well under a second: a round of a block, a turn of a stream.
class WorkItem {
 public:
  virtual ~WorkItem() = default;
  /// Called by one worker at a time. May delete the item, but not the lane.
  virtual void run() noexcept = 0;
  /// Age within the lane: the smallest goes first. Not changed while the item is due.
  std::uint64_t sequence = 0;
};

/// A loader's place in the queue, and what the runtime asks of the loader.
class WorkLane {
 public:
  explicit WorkLane(int priority) : priority_(priority) {}
  virtual ~WorkLane() = default;
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
  std::deque<WorkItem*> due_;  // oldest first; guarded by the queue's mutex
};

/// Work that is due. Safe for concurrent use.
class WorkQueue {
 public:
  void add(WorkLane& lane);
  void remove(WorkLane& lane);
  void push(WorkLane& lane, WorkItem& item);
  /// The most urgent; null when nothing is due.
  WorkItem* pop();
  bool empty();
  std::vector<WorkItem*> withdraw(WorkLane& lane);

 private:
  Mutex mutex_;
  std::vector<WorkLane*> lanes_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::engine
