// A result that a callback waits for instead of a thread: `Loader::on_next`.
//
// Each time something may have come about, a small piece of work looks for the result on some worker, and calls the
// callback when it is there. It has a lane of its own, so that an engine that takes its work back does not meet it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/engine/work_queue.h>
#include <penstock/pipeline/loader.h>

namespace penstock::engine {

/// The pending callback of one loader, at most one at a time. Safe for concurrent use.
class AsyncTake final : public WorkLane, public WorkItem, public std::enable_shared_from_this<AsyncTake> {
 public:
  using Callback = std::function<void(NextResult)>;
  /// What the engine has for the consumer now; nothing when it is still to come. Throws Stopped.
  using TakeNow = std::function<std::optional<NextResult>()>;
  /// Told that a consumer begins (true) or ceases to wait.
  using Waits = std::function<void(bool waits)>;

  AsyncTake(RuntimeState& runtime, TakeNow take_now, Waits waits);
  /// To be called once after construction, and before anything is armed.
  void start();

  /// `callback` will be called once, on a worker. Throws std::logic_error while another one is pending.
  void arm(Callback callback);
  /// Takes the callback back: true when it will not be called, and no result has been taken for it.
  bool cancel();
  bool armed() const noexcept { return armed_.load(std::memory_order_seq_cst); }
  /// There may be a result. May be called under any lock.
  void look_again() noexcept;

  /// After the engine has been stopped: a pending callback gets Stopped, on this thread; waits for one that runs,
  /// unless this is called from it. Afterwards the engine is not used any more.
  void end();

  void run() noexcept override;
  void room_freed() override {}
  void trim() override {}

 private:
  enum class State : std::uint8_t {
    kIdle,
    kDue,
    kRunning,
    kAgain,  // running, and to be run once more
  };
  bool look(std::unique_lock<std::mutex>& lock);
  void call(std::unique_lock<std::mutex>& lock, Callback callback, NextResult result);
  void submit_locked();
  Callback release_locked();

  RuntimeState& runtime_;
  const TakeNow take_now_;
  const Waits waits_;
  std::atomic<bool> armed_{false};  // as callback_, for a look without the mutex

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Callback callback_;
  State state_ = State::kIdle;
  bool taking_ = false;  // asks the engine, without the mutex
  bool ended_ = false;
  std::thread::id caller_{};  // runs a callback
};

}  // namespace penstock::engine
