// When a stream runs: one turn at a time on some worker, no wake-up lost, and a count of all that runs for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/engine/work_queue.h>

namespace penstock::engine {

/// The turn of one stream, and the gate that everything of the stream passes on its way to the workers. Held by shared
/// pointers: `wake`, `submit` and `finished` may be called when the stream has long gone. Safe for concurrent use.
class StreamTurn final : public WorkItem, public std::enable_shared_from_this<StreamTurn> {
 public:
  /// `turn` does a bounded piece of the stream's work; true: there is more, which needs nothing from outside. Called by
  /// one thread at a time; it may not throw.
  StreamTurn(RuntimeState& runtime, WorkLane& lane, std::function<bool()> turn)
      : runtime_(&runtime), lane_(&lane), turn_(std::move(turn)) {}

  /// Makes a turn due, unless one is; of a turn that is running: one more after it.
  void wake();
  /// Makes `item` due and counts it until `finished`. False when the stream has been stopped.
  bool submit(WorkItem& item);
  void finished();

  /// Nothing becomes due any more. What is due and not begun is run here; a turn then does nothing.
  void stop();
  /// After `stop`: waits until nothing runs.
  void wait();

  void run() noexcept override;

 private:
  enum class State : std::uint8_t {
    kIdle,
    kDue,
    kRunning,
    kAgain,  // running, and to be run once more
  };

  RuntimeState* runtime_;  // both only until `stop`
  WorkLane* lane_;
  const std::function<bool()> turn_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  State state_ = State::kIdle;
  bool stopped_ = false;
  std::size_t active_ = 0;  // due or running, this turn among them
};

}  // namespace penstock::engine
