// The engine is asked, and the callback called, without the mutex: so `look_again` may come from under any lock.
#include <penstock/pipeline/engine/async_take.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::engine {

AsyncTake::AsyncTake(RuntimeState& runtime, TakeNow take_now, Waits waits)
    : WorkLane(0), runtime_(runtime), take_now_(std::move(take_now)), waits_(std::move(waits)) {
  // Short, and somebody waits for it: before all rounds of blocks.
  consumer_waits_.store(true, std::memory_order_relaxed);
}

void AsyncTake::start() { runtime_.add(shared_from_this()); }

void AsyncTake::submit_locked() {
  state_ = State::kDue;
  runtime_.submit(*this, *this);
}

AsyncTake::Callback AsyncTake::release_locked() {
  armed_.store(false, std::memory_order_seq_cst);
  waits_(false);
  return std::exchange(callback_, nullptr);
}

void AsyncTake::arm(Callback callback) {
  const std::lock_guard lock(mutex_);
  if (callback_) throw std::logic_error("on_next: an earlier callback is still pending");
  callback_ = std::move(callback);
  waits_(true);
  armed_.store(true, std::memory_order_seq_cst);
  if (state_ == State::kIdle && !ended_) {
    submit_locked();
  } else if (state_ == State::kRunning) {
    state_ = State::kAgain;
  }
}

bool AsyncTake::cancel() {
  Callback callback;  // ends after the lock
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !taking_; });
  if (!callback_) return false;
  callback = release_locked();
  lock.unlock();
  return true;
}

// A result that comes about after `armed_` was found false is seen by the look that arming makes due.
void AsyncTake::look_again() noexcept {
  if (!armed()) return;
  const std::lock_guard lock(mutex_);
  if (!callback_ || ended_) return;
  if (state_ == State::kIdle) {
    submit_locked();
  } else if (state_ == State::kRunning) {
    state_ = State::kAgain;
  }
}

void AsyncTake::call(std::unique_lock<std::mutex>& lock, Callback callback, NextResult result) {
  const std::thread::id before = std::exchange(caller_, std::this_thread::get_id());
  lock.unlock();
  callback(std::move(result));
  callback = nullptr;
  lock.lock();
  caller_ = before;
}

// One look; true when another one is due at once.
bool AsyncTake::look(std::unique_lock<std::mutex>& lock) {
  state_ = State::kRunning;
  if (!callback_) return false;
  taking_ = true;
  lock.unlock();
  std::optional<NextResult> result;
  try {
    result = take_now_();
  } catch (...) {
    result = NextResult{std::nullopt, std::current_exception()};
  }
  lock.lock();
  taking_ = false;
  changed_.notify_all();
  if (result) call(lock, release_locked(), std::move(*result));
  return state_ == State::kAgain;
}

void AsyncTake::run() noexcept {
  const std::shared_ptr<AsyncTake> self = shared_from_this();
  std::unique_lock lock(mutex_);
  while (look(lock)) {
    if (ended_) continue;  // its lane is about to go
    submit_locked();
    return;
  }
  state_ = State::kIdle;
  changed_.notify_all();
}

void AsyncTake::end() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  lock.unlock();
  const bool was_due = !runtime_.withdraw(*this).empty();
  lock.lock();
  if (was_due) state_ = State::kIdle;
  for (;;) {
    changed_.wait(lock, [this] { return !taking_; });
    if (!callback_) break;
    call(lock, release_locked(), {std::nullopt, std::make_exception_ptr(Stopped("next: the loader was stopped"))});
  }
  changed_.wait(lock, [this] { return state_ == State::kIdle || caller_ == std::this_thread::get_id(); });
  lock.unlock();
  runtime_.remove(*this);
}

}  // namespace penstock::engine
