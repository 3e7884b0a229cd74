// How many workers run at once, and how much of the time: the governor's two limits.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::engine {

/// Lets at most `limit()` workers in. Safe for concurrent use; nothing blocks.
class WorkerGate {
 public:
  /// 1 <= limit.
  explicit WorkerGate(std::size_t limit) : limit_(limit) {}

  std::size_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  void set_limit(std::size_t limit) noexcept { limit_.store(limit, std::memory_order_seq_cst); }
  bool is_full() const noexcept { return inside_.load(std::memory_order_seq_cst) >= limit(); }
  /// False when it is full. Who is refused must look once more whether it still is: another one that was refused at the
  /// same moment counts for an instant. Every change of the count is one atomic step on the same counter, so whatever
  /// was made due before a refusal is seen by whoever leaves after it.
  bool enter() noexcept {
    if (inside_.fetch_add(1, std::memory_order_seq_cst) < limit()) return true;
    leave();
    return false;
  }
  void leave() noexcept { inside_.fetch_sub(1, std::memory_order_seq_cst); }

 private:
  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> inside_{0};
};

/// One worker's share of the time: after being busy for t it owes t * (1 / share - 1) of sleep.
class UtilisationDebt {
 public:
  /// `share` in (0, 1].
  explicit UtilisationDebt(double share) : factor_(1.0 / share - 1.0) {}
  void busy(std::chrono::nanoseconds time) noexcept {
    owed_ += std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor_));
  }
  /// What is to be slept now: nothing below a millisecond, and at most 20 ms at once, so that an end is not held up.
  std::chrono::nanoseconds take() noexcept {
    if (owed_ < std::chrono::milliseconds(1)) return {};
    const std::chrono::nanoseconds now = std::min<std::chrono::nanoseconds>(owed_, std::chrono::milliseconds(20));
    owed_ -= now;
    return now;
  }

 private:
  double factor_;
  std::chrono::nanoseconds owed_{0};
};

}  // namespace penstock::engine
