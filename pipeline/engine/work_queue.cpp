// Lanes are few (one a loader), so the best one is found by looking at each.
#include <penstock/pipeline/engine/work_queue.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace penstock::engine {

void WorkQueue::add(WorkLane& lane) {
  const MutexLock lock(mutex_);
  lanes_.push_back(&lane);
}

void WorkQueue::remove(WorkLane& lane) {
  const MutexLock lock(mutex_);
  std::erase(lanes_, &lane);
}

void WorkQueue::push(WorkLane& lane, WorkItem& item) {
  const MutexLock lock(mutex_);
  auto at = lane.due_.end();
  while (at != lane.due_.begin() && (*std::prev(at))->sequence > item.sequence) --at;
  lane.due_.insert(at, &item);
}

WorkItem* WorkQueue::pop() {
  const auto urgency = [](const WorkLane& lane) {
    const auto ready = static_cast<std::int64_t>(lane.ready_batches_.load(std::memory_order_relaxed));
    return std::tuple(lane.consumer_waits_.load(std::memory_order_relaxed), lane.priority_, -ready);
  };
  const MutexLock lock(mutex_);
  WorkLane* best = nullptr;
  for (WorkLane* const lane : lanes_) {
    if (!lane->due_.empty() && (!best || urgency(*lane) > urgency(*best))) best = lane;
  }
  if (!best) return nullptr;
  WorkItem* const item = best->due_.front();
  best->due_.pop_front();
  // Equals take turns.
  const auto at = std::find(lanes_.begin(), lanes_.end(), best);
  std::rotate(at, at + 1, lanes_.end());
  return item;
}

bool WorkQueue::empty() {
  const MutexLock lock(mutex_);
  return std::all_of(lanes_.begin(), lanes_.end(), [](const WorkLane* lane) { return lane->due_.empty(); });
}

std::vector<WorkItem*> WorkQueue::withdraw(WorkLane& lane) {
  const MutexLock lock(mutex_);
  std::vector<WorkItem*> items(lane.due_.begin(), lane.due_.end());
  lane.due_.clear();
  return items;
}

}  // namespace penstock::engine
