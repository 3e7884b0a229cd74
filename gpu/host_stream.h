// A stream of the host device: a thread that runs what it is given, in order.
//
// A recording of an event is an object of its own (`Generation`). Whoever waits keeps the generation that was the last
// one when the wait was asked for, so recording the event again moves nobody's wait. The first failure on a stream
// stays: what comes later on it is not run, generations recorded on it carry the failure on, and a stream that waits
// for such a generation has failed too. Nothing ever hangs on a failure.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace penstock::gpu {

/// One recording of an event: completes once, with the failure (if any) of what came before it.
class Generation {
 public:
  bool completed() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Blocks.
  void wait() const noexcept { done_.wait(false, std::memory_order_acquire); }
  /// Null when all went well. Only after completion.
  const std::exception_ptr& failure() const noexcept { return failure_; }
  void complete(std::exception_ptr failure) noexcept {
    failure_ = std::move(failure);
    done_.store(true, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::exception_ptr failure_;  // written before done_, read after it
  std::atomic<bool> done_{false};
};

/// Safe for concurrent use. Destruction runs what is still queued.
class HostStream {
 public:
  HostStream(std::string device, std::string name);
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Rethrows the stream's failure if there is one. A `body` that throws fails the stream, under `work`'s name.
  void enqueue(std::string work, std::function<void()> body);
  void record(std::shared_ptr<Generation> generation);
  void wait(std::shared_ptr<const Generation> generation);
  /// Lets the thread end when the queue is empty; the destructor then joins it.
  void finish();

 private:
  struct Operation {
    std::string work;
    std::function<void()> body;
    std::shared_ptr<Generation> record;
    std::shared_ptr<const Generation> wait;
  };
  void push(Operation operation);
  void run();
  void execute(Operation& operation);
  void fail(std::exception_ptr failure);
  std::exception_ptr failure() const;

  const std::string device_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Operation> queue_;  // guarded by mutex_
  std::exception_ptr failure_;   // guarded by mutex_: the first
  bool finishing_ = false;       // guarded by mutex_
  std::thread thread_;           // last: uses the rest
};

}  // namespace penstock::gpu
