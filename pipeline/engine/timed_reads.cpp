// Every read has the same limit, so deadlines come in the order of reads, and a queue is enough.
#include <penstock/pipeline/engine/timed_reads.h>

#include <exception>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>

namespace penstock::engine {

class TimedRead final : public Sink {
 public:
  TimedRead(BlockRow& row, std::shared_ptr<const Source> source) : source_(std::move(source)), row_(&row) {}
  void own_itself(std::shared_ptr<TimedRead> self) { self_ = std::move(self); }

  std::byte* allocate(std::size_t field, const Shape& shape) override {
    std::shared_ptr<TimedRead> ends;  // after the lock
    const std::lock_guard lock(mutex_);
    std::byte* const data = row_ ? row_->allocate(field, shape) : nullptr;
    if (!data) ends = answered_locked();
    return data;
  }
  void borrow(std::size_t field, const Shape& shape, const std::byte* data) override {
    const std::lock_guard lock(mutex_);
    if (row_) row_->borrow(field, shape, data);
  }
  void done() override {
    std::shared_ptr<TimedRead> ends;
    const std::lock_guard lock(mutex_);
    BlockRow* const row = row_;
    ends = answered_locked();
    if (row) row->done();
  }
  void fail(std::exception_ptr error) override {
    std::shared_ptr<TimedRead> ends;
    const std::lock_guard lock(mutex_);
    BlockRow* const row = row_;
    ends = answered_locked();
    if (row) row->fail(std::move(error));
  }

  /// The source has not answered in time.
  void expire(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    BlockRow* const row = std::exchange(row_, nullptr);
    if (!row) return;
    memory_ = std::move(row->memory);
    for (ChargedMemory& memory : memory_) memory.charge = {};
    row->memory.clear();
    row->fail(std::make_exception_ptr(DataError(ErrorKind::kTimedOut, reason)));
  }
  bool answered() {
    const std::lock_guard lock(mutex_);
    return !row_;
  }

 private:
  std::shared_ptr<TimedRead> answered_locked() {
    row_ = nullptr;
    return std::exchange(self_, nullptr);
  }

  const std::shared_ptr<const Source> source_;  // is still at work
  std::mutex mutex_;                            // guards what follows
  BlockRow* row_;                               // until it settles
  std::vector<ChargedMemory> memory_;           // that the source may still write to
  std::shared_ptr<TimedRead> self_;
};

TimedReads::TimedReads(std::shared_ptr<const Source> source, std::chrono::milliseconds limit)
    : source_(std::move(source)), limit_(limit), thread_([this] { watch(); }) {}

void TimedReads::read(BlockRow& row, FileReader& files) {
  const std::uint64_t index = row.placed.index;
  const auto read = std::make_shared<TimedRead>(row, source_);
  read->own_itself(read);
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    while (!due_.empty() && due_.front().second->answered()) due_.pop_front();
    ended = ended_;
    if (!ended) {
      due_.emplace_back(Clock::now() + limit_, read);
      if (due_.size() == 1) changed_.notify_one();
    }
  }
  try {
    source_->read(index, *read, files);
  } catch (...) {
    read->fail(std::current_exception());  // a source that breaks its promise
  }
  if (ended) read->expire("the loader has ended");
}

void TimedReads::watch() {
  const std::string reason =
      "the source did not answer within " + std::to_string(limit_.count()) + " ms (LoaderOptions::read_timeout)";
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (due_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto [deadline, read] = due_.front();
    if (read->answered()) {
      due_.pop_front();
    } else if (Clock::now() < deadline) {
      changed_.wait_until(lock, deadline);
    } else {
      due_.pop_front();
      lock.unlock();
      read->expire(reason);
      lock.lock();
    }
  }
}

void TimedReads::end() {
  std::deque<std::pair<Clock::time_point, std::shared_ptr<TimedRead>>> left;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    left.swap(due_);
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  for (const auto& [deadline, read] : left) read->expire("the loader has ended");
}

}  // namespace penstock::engine
