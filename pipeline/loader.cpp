// The Loader is a handle on the engine's core.
#include <penstock/pipeline/loader.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include <penstock/pipeline/engine/auto_tuning.h>
#include <penstock/pipeline/engine/consumer_trace.h>
#include <penstock/pipeline/engine/make_engine.h>
#include <penstock/pipeline/engine/staged_replay.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader_state.h>

namespace penstock {
namespace {

/// next(), poll() and on_next() come from one thread at a time; the second one is told.
class OneAtATime {
 public:
  explicit OneAtATime(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true, std::memory_order_acquire)) {
      throw std::logic_error("loader: next(), poll() or on_next() is running on another thread");
    }
  }
  ~OneAtATime() { busy_.store(false, std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace

class Loader::Impl {
 public:
  Impl(const Runtime& runtime, const Pipeline& pipeline, const LoaderOptions& options)
      : runtime_(runtime),
        core_(engine::make_engine(runtime_.state(), pipeline.shared_plan(), options)),
        plan_(pipeline.shared_plan()),
        replay_(options.replay_staged_batches, most_at_once(options), batches_in_all(options)),
        consumer_trace_(options.trace) {
    if (options.autotune.enabled) tuning_.emplace(options.autotune, *core_, runtime_);
    core_->start();
  }
  ~Impl() {
    stop();
    core_->end_on_next();
    core_->shutdown();
    // A worker that asks all loaders for room may hold the core for a moment more. What the maps hold, maybe the last
    // handle on the runtime, must not end on that worker.
    while (core_.use_count() > 1) std::this_thread::yield();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<NextResult> take(bool wait, const std::stop_token& token) {
    const OneAtATime guard(taking_);
    if (core_->on_next_pending()) throw std::logic_error("loader: a callback of on_next() is pending");
    const engine::ConsumerTrace::Taking taking(consumer_trace_);
    std::optional<NextResult> result = look(wait, token);
    if (result && result->batch) taking.delivered(*result->batch);
    return result;
  }
  void on_next(std::function<void(NextResult)> callback) {
    if (!callback) throw InvalidArgument("on_next: an empty callback");
    std::shared_ptr<engine::AsyncTake> take;
    {
      const OneAtATime guard(taking_);
      take = core_->async_take(runtime_.state(), [this] { return look(false, {}); });
    }
    // From here on the callback may run, ask for the next one, and even end this loader.
    take->arm(std::move(callback));
  }
  void stop() {
    stopped_.store(true, std::memory_order_relaxed);
    core_->stop();
  }
  engine::LoaderEngine& core() noexcept { return *core_; }
  std::vector<TuningDecision> decisions() const {
    return tuning_ ? tuning_->decisions() : std::vector<TuningDecision>{};
  }

  const Plan& plan() const noexcept { return *plan_; }

 private:
  std::optional<NextResult> look(bool wait, const std::stop_token& token) {
    if (replay_.full()) {
      if (stopped_.load(std::memory_order_relaxed)) throw Stopped("next: the loader was stopped");
      return NextResult{replay_.next(), nullptr};
    }
    std::optional<NextResult> result = core_->take(wait, token);
    if (result && result->batch) {
      if (tuning_) tuning_->delivered(*result);
      if (replay_.keep(*result->batch)) core_->stop();
    }
    return result;
  }
  std::size_t most_at_once(const LoaderOptions& options) const {
    const std::size_t blocks = core_->knobs().batches_ahead + 1;
    return options.memory ? std::min(blocks, options.memory->capacity()) : blocks;
  }
  std::optional<std::uint64_t> batches_in_all(const LoaderOptions& options) const {
    const std::optional<std::uint64_t> an_epoch = core_->batches_per_epoch();
    if (!an_epoch || !options.epoch_count) return std::nullopt;
    return *an_epoch * *options.epoch_count;
  }

  Runtime runtime_;  // outlives the core's work
  std::shared_ptr<engine::LoaderEngine> core_;
  std::shared_ptr<const Plan> plan_;
  std::atomic<bool> taking_{false};
  std::atomic<bool> stopped_{false};
  std::optional<engine::AutoTuning> tuning_;
  engine::StagedReplay replay_;
  engine::ConsumerTrace consumer_trace_;
};

Loader::Loader(const Runtime& runtime, const Pipeline& pipeline, LoaderOptions options)
    : impl_(std::make_unique<Impl>(runtime, pipeline, options)) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

std::optional<Batch> Loader::next() { return next(std::stop_token{}); }

std::optional<Batch> Loader::next(std::stop_token stop) {
  NextResult result = std::move(*impl_->take(true, stop));
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.batch);
}

std::optional<NextResult> Loader::poll() {
  try {
    return impl_->take(false, std::stop_token{});
  } catch (const Stopped&) {
    return NextResult{std::nullopt, std::current_exception()};
  }
}

void Loader::on_next(std::function<void(NextResult)> callback) { impl_->on_next(std::move(callback)); }
bool Loader::cancel_on_next() { return impl_->core().cancel_on_next(); }

void Loader::warm_up() { impl_->core().pump(); }
void Loader::stop() { impl_->stop(); }

std::optional<std::uint64_t> Loader::batches_per_epoch() const { return impl_->core().batches_per_epoch(); }
std::uint64_t Loader::dropped_per_epoch() const { return impl_->core().dropped_per_epoch(); }
const BatchLayout& Loader::layout() const noexcept { return impl_->core().layout(); }
Position Loader::position() const noexcept { return impl_->core().position(); }
LoaderReport Loader::report() const {
  LoaderReport report = impl_->core().report();
  report.wait_seconds = impl_->core().wait_seconds();
  report.decisions = impl_->decisions();
  return report;
}
std::vector<SampleFault> Loader::faults() const { return impl_->core().faults(); }
Knobs Loader::knobs() const { return impl_->core().knobs(); }
void Loader::turn(const Knobs& knobs) { impl_->core().turn(knobs); }

std::string Loader::state() const { return state(position()); }
std::string Loader::state(const Position& position) const { return state_text(impl_->plan(), position); }

}  // namespace penstock
