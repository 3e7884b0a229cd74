// A counter is the signal: who finds no result waits for it to change, and looks again. A callback is told as well.
#include <penstock/pipeline/engine/loader_engine.h>

#include <chrono>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

constexpr int kLooks = 100;
constexpr int kPausesPerLook = 100;

}  // namespace

void LoaderEngine::notify() noexcept {
  signal_.fetch_add(1, std::memory_order_seq_cst);
  signal_.notify_all();
  if (AsyncTake* const take = notified_take_.load(std::memory_order_seq_cst)) take->look_again();
}

// A batch that is nearly ready is worth a few microseconds of looking: going to sleep and being woken takes longer.
void LoaderEngine::look_out(std::uint32_t seen) const noexcept {
  for (int look = 0; look < kLooks && signal_.load(std::memory_order_acquire) == seen; ++look) {
    for (int pause = 0; pause < kPausesPerLook; ++pause) std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

std::optional<NextResult> LoaderEngine::take(bool wait, const std::stop_token& token) {
  using Clock = std::chrono::steady_clock;
  const std::stop_callback on_stop(token, [this] { notify(); });
  pump();
  std::uint32_t seen = signal_.load(std::memory_order_seq_cst);
  std::optional<NextResult> result = try_take();
  if (result || !wait) return result;

  struct Waiting {
    explicit Waiting(LoaderEngine& of) : engine(of) { engine.consumer_waits_.store(true, std::memory_order_relaxed); }
    ~Waiting() {
      engine.consumer_waits_.store(false, std::memory_order_relaxed);
      const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
      engine.wait_ns_.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
    }
    LoaderEngine& engine;
    Clock::time_point begin = Clock::now();
  };
  const Waiting waiting(*this);
  for (;;) {
    if (token.stop_requested()) throw Stopped("next: a stop was requested while it waited");
    look_out(seen);
    signal_.wait(seen, std::memory_order_seq_cst);
    seen = signal_.load(std::memory_order_seq_cst);
    if (std::optional<NextResult> later = try_take()) return later;
  }
}

std::shared_ptr<AsyncTake> LoaderEngine::async_take(RuntimeState& runtime, AsyncTake::TakeNow take_now) {
  pump();
  if (!async_take_) {
    async_take_ = std::make_shared<AsyncTake>(
        runtime, std::move(take_now), [this](bool waits) { consumer_waits_.store(waits, std::memory_order_relaxed); });
    async_take_->start();
    notified_take_.store(async_take_.get(), std::memory_order_seq_cst);
  }
  return async_take_;
}

bool LoaderEngine::cancel_on_next() {
  AsyncTake* const take = notified_take_.load(std::memory_order_seq_cst);
  return take && take->cancel();
}

bool LoaderEngine::on_next_pending() const noexcept {
  const AsyncTake* const take = notified_take_.load(std::memory_order_seq_cst);
  return take && take->armed();
}

void LoaderEngine::end_on_next() {
  if (async_take_) async_take_->end();
}

}  // namespace penstock::engine
