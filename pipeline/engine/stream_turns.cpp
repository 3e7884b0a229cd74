// One turn of a stream: pull an element, place it, again.
#include <utility>

#include <penstock/pipeline/engine/stream_core.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

// A turn lasts about so long: others wait for a worker too.
constexpr std::chrono::microseconds kTurn{200};

}  // namespace

bool StreamCore::run_turn() {
  const Clock::time_point begin = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (!begin_) begin_ = begin;
  }
  // What others keep for reuse may be all that is missing.
  if (trim_wanted_.exchange(false, std::memory_order_relaxed)) runtime_.trim();
  progressed_ = false;
  bool more = false;
  try {
    while (!stopped_.load(std::memory_order_relaxed) && step()) {
      if (Clock::now() - begin < kTurn) continue;
      more = true;
      break;
    }
  } catch (...) {
    // In its place: the rows before it come first.
    batcher_->fail_stream(std::current_exception());
    done_ = true;
  }
  if (progressed_) runtime_.room_freed();
  return more;
}

// False: nothing can be done before something changes, and then the turn is due again.
bool StreamCore::step() {
  if (done_) return false;
  if (pass_ended_) {
    if (!batcher_->finish()) return false;
    end_pass();
    return true;
  }
  if (!holds_element_) {
    if (!batcher_->has_open_batch() && !room_ahead()) return false;
    if (!in_pass_) {
      begin_pass();
      return true;
    }
    switch (root_->next(held_)) {
      case Pull::kPending:
        return false;
      case Pull::kEnd:
        pass_ended_ = true;
        return true;
      case Pull::kElement:
        holds_element_ = true;
        break;
    }
  }
  if (!batcher_->place(held_)) return false;
  held_ = {};
  holds_element_ = false;
  progressed_ = true;
  if (batcher_->ended()) done_ = true;
  return true;
}

bool StreamCore::room_ahead() const {
  const std::lock_guard lock(mutex_);
  return open_results_ < open_limit_ && end_results_ < open_limit_;
}

void StreamCore::begin_pass() {
  if (options_.epoch_count && pull_epoch_ >= *options_.epoch_count) {
    done_ = true;
    return;
  }
  root_->start({.epoch = pull_epoch_});
  batcher_->begin_epoch(pull_epoch_, {}, nullptr);
  in_pass_ = true;
}

void StreamCore::end_pass() {
  progressed_ = true;
  pass_ended_ = false;
  in_pass_ = false;
  if (batcher_->ended()) {
    done_ = true;
    return;
  }
  ++pull_epoch_;
  const bool last = options_.epoch_count && pull_epoch_ >= *options_.epoch_count;
  // Where all batches of the first epoch had been delivered before the start, its end had been too.
  if (batcher_->only_end_was_left() && !last) {
    const std::lock_guard lock(mutex_);
    ++take_epoch_;
    return;
  }
  StreamResult end;
  end.faults = batcher_->take_faults();
  std::vector<StreamResult> results;
  results.push_back(std::move(end));
  deliver(std::move(results));
}

void StreamCore::deliver(std::vector<StreamResult> results) {
  {
    const std::lock_guard lock(mutex_);
    for (StreamResult& result : results) {
      if (result.closes_batch) {
        ++open_results_;
        ready_batches_.fetch_add(1, std::memory_order_relaxed);
      } else if (!result.batch && !result.error) {
        ++end_results_;
      }
      results_.push_back(std::move(result));
    }
  }
  notify();
}

std::optional<BatchLease> StreamCore::acquire(const BatchLayout& layout) {
  if (!room_ahead()) return std::nullopt;
  const auto ask = [&] { return memory_->try_acquire(layout, next_batch_); };
  std::optional<BatchLease> lease = ask();
  if (!lease && own_blocks_ && !own_blocks_->all_lent()) {
    // The budget had no room, because others still hold what this loader's share took over.
    wait_for_room();
  }
  {
    const std::lock_guard lock(mutex_);
    lease_refused_ = !lease;
  }
  if (!lease) {
    notify();
    return std::nullopt;
  }
  ++next_batch_;
  return lease;
}

// Bytes that came back before this loader was counted as starving have woken nobody: one more turn looks for them.
void StreamCore::wait_for_room() {
  if (starving_.exchange(true, std::memory_order_seq_cst)) return;
  runtime_.count_starving(1);
  trim_wanted_.store(true, std::memory_order_relaxed);
  turn_->wake();
}

void StreamCore::room_freed() {
  if (!starving_.exchange(false, std::memory_order_seq_cst)) return;
  runtime_.count_starving(-1);
  turn_->wake();
}

}  // namespace penstock::engine
