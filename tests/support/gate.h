// Gates decide the order of threads in tests: nothing sleeps.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace penstock::test {

/// Closed at first: who comes waits until it is opened for all, or lets so many through.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_ || passes_ > 0; });
    if (!open_) --passes_;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void let_through(std::size_t count) {
    const std::lock_guard lock(mutex_);
    passes_ += count;
    changed_.notify_all();
  }
  /// Blocks until `count` callers have come to wait() since the start.
  void await_arrivals(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return arrived_ >= count; });
  }
  std::size_t arrived() const {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::size_t passes_ = 0;
  std::size_t arrived_ = 0;
};

}  // namespace penstock::test
