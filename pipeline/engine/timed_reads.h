// Reads that may take only so long: a row whose source does not answer in time fails, and what comes later is let go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <penstock/pipeline/engine/block.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

/// What the source of one row answers to. It owns itself until the source has answered, however late, with the memory
/// that the source may still write to, which is then not charged any more.
class TimedRead;

/// The reads of one loader, with a thread that looks after their deadlines. Safe for concurrent use.
class TimedReads {
 public:
  /// `limit` > 0.
  TimedReads(std::shared_ptr<const Source> source, std::chrono::milliseconds limit);
  ~TimedReads() { end(); }
  TimedReads(const TimedReads&) = delete;
  TimedReads& operator=(const TimedReads&) = delete;

  /// As Source::read into `row`, which settles once: by the source in time, or as failed with ErrorKind::kTimedOut.
  void read(BlockRow& row, FileReader& files);
  /// Fails what is out now, and at once what is begun later. Ends the thread.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();

  const std::shared_ptr<const Source> source_;
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool ended_ = false;
  std::deque<std::pair<Clock::time_point, std::shared_ptr<TimedRead>>> due_;  // by deadline
  std::thread thread_;
};

}  // namespace penstock::engine
