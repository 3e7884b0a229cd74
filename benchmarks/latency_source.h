// A source behind slow storage, emulated: each read occupies one of its channels for a fixed time.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <penstock/pipeline/source.h>

namespace penstock::bench {

/// Numbers {x: i64 []}. A read is answered `latency` after a channel was free for it, from a thread of the source.
class LatencySource final : public Source {
 public:
  LatencySource(std::uint64_t count, std::chrono::microseconds latency, std::size_t channels)
      : count_(count), latency_(latency), free_(channels, Clock::time_point{}), answers_([this] { answer(); }) {}
  ~LatencySource() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    answers_.join();
  }

  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return count_; }
  std::string describe(std::uint64_t index) const override { return "slow " + std::to_string(index); }
  std::string fingerprint(std::uint64_t index) const override { return "slow:" + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    std::byte* const data = sink.allocate(0, Shape{});
    if (!data) return;
    const auto value = static_cast<std::int64_t>(index);
    std::memcpy(data, &value, sizeof value);
    {
      const std::lock_guard lock(mutex_);
      // Channels become free in the order in which they were taken: the front one first.
      const Clock::time_point begin = std::max(free_.front(), Clock::now());
      free_.pop_front();
      free_.push_back(begin + latency_);
      due_.emplace_back(begin + latency_, &sink);
      ++reads_;
    }
    wake_.notify_one();
  }
  std::uint64_t reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void answer() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (due_.empty()) {
        if (ended_) return;
        wake_.wait(lock);
        continue;
      }
      const Clock::time_point at = due_.front().first;
      if (Clock::now() < at) {
        wake_.wait_until(lock, at);
        continue;
      }
      Sink* const sink = due_.front().second;
      due_.pop_front();
      lock.unlock();
      sink->done();
      lock.lock();
    }
  }

  const Schema schema_{{{"x", DataType::kI64, {}}}};
  const std::uint64_t count_;
  const Clock::duration latency_;
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  mutable std::deque<Clock::time_point> free_;                   // when each channel is free, soonest first
  mutable std::deque<std::pair<Clock::time_point, Sink*>> due_;  // answers, soonest first
  mutable std::uint64_t reads_ = 0;
  bool ended_ = false;
  std::thread answers_;
};

}  // namespace penstock::bench
