// Items become due under the mutex, so that after `stop` has taken the due ones back none can follow.
#include <penstock/pipeline/engine/stream_turn.h>

namespace penstock::engine {

void StreamTurn::wake() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  if (state_ == State::kIdle) {
    state_ = State::kDue;
    ++active_;
    runtime_->submit(*lane_, *this);
  } else if (state_ == State::kRunning) {
    state_ = State::kAgain;
  }
}

bool StreamTurn::submit(WorkItem& item) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  ++active_;
  runtime_->submit(*lane_, item);
  return true;
}

void StreamTurn::finished() {
  const std::lock_guard lock(mutex_);
  if (--active_ == 0) ended_.notify_all();
}

void StreamTurn::run() noexcept {
  const std::shared_ptr<StreamTurn> self = shared_from_this();
  bool stopped = false;
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kRunning;
    stopped = stopped_;
  }
  const bool more = !stopped && turn_();
  const std::lock_guard lock(mutex_);
  if (!stopped_ && (more || state_ == State::kAgain)) {
    state_ = State::kDue;
    runtime_->submit(*lane_, *this);
    return;
  }
  state_ = State::kIdle;
  if (--active_ == 0) ended_.notify_all();
}

void StreamTurn::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  for (WorkItem* const item : runtime_->withdraw(*lane_)) item->run();
}

void StreamTurn::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return active_ == 0; });
}

}  // namespace penstock::engine
