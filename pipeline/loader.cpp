// The Loader is a handle on the engine's core, and the text form of a position.
#include <penstock/pipeline/loader.h>

#include <atomic>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/engine/loader_core.h>
#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

constexpr int kStateVersion = 1;

/// next() and poll() come from one thread at a time; the second one is told.
class OneAtATime {
 public:
  explicit OneAtATime(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true, std::memory_order_acquire)) {
      throw std::logic_error("loader: next() or poll() is running on another thread");
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
        core_(std::make_shared<engine::LoaderCore>(runtime_.state(), pipeline.shared_plan(), options)) {
    core_->start();
  }
  ~Impl() {
    core_->shutdown();
    // A worker that asks all loaders for room may hold the core for a moment more. What the maps hold, maybe the last
    // handle on the runtime, must not end on that worker.
    while (core_.use_count() > 1) std::this_thread::yield();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<NextResult> take(bool wait, const std::stop_token& token) {
    const OneAtATime guard(taking_);
    return core_->take(wait, token);
  }
  engine::LoaderCore& core() noexcept { return *core_; }

 private:
  Runtime runtime_;  // outlives the core's work
  std::shared_ptr<engine::LoaderCore> core_;
  std::atomic<bool> taking_{false};
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

void Loader::warm_up() { impl_->core().pump(); }
void Loader::stop() { impl_->core().stop(); }

std::optional<std::uint64_t> Loader::batches_per_epoch() const { return impl_->core().batches_per_epoch(); }
std::uint64_t Loader::dropped_per_epoch() const { return impl_->core().dropped_per_epoch(); }
const BatchLayout& Loader::layout() const noexcept { return impl_->core().layout(); }
Position Loader::position() const noexcept { return impl_->core().position(); }
LoaderReport Loader::report() const { return impl_->core().report(); }

std::string Loader::state() const { return state(position()); }

std::string Loader::state(const Position& position) const {
  nlohmann::ordered_json json;
  json["penstock_state"] = kStateVersion;
  json["epoch"] = position.epoch;
  json["slot"] = position.slot;
  json["size"] = impl_->core().slots_per_epoch();
  json["batch"] = layout().batch_size;
  return json.dump();
}

Position Loader::parse_state(const std::string& text) const {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto number = [&](const char* name) -> std::uint64_t {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_number_unsigned()) {
      throw InvalidArgument(std::string("state: \"") + name + "\" is missing or not a whole number");
    }
    return at->get<std::uint64_t>();
  };
  if (!json.is_object()) throw InvalidArgument("state: this is no JSON object");
  if (number("penstock_state") != kStateVersion) {
    throw InvalidArgument("state: version " + std::to_string(number("penstock_state")) + ", only version " +
                          std::to_string(kStateVersion) + " is read");
  }
  const Position position{number("epoch"), number("slot")};
  const std::uint64_t size = impl_->core().slots_per_epoch();
  if (number("size") != size) {
    throw InvalidArgument("state: it belongs to a pipeline of " + std::to_string(number("size")) +
                          " samples an epoch, this one has " + std::to_string(size));
  }
  if (position.slot > size) {
    throw InvalidArgument("state: slot " + std::to_string(position.slot) + " of " + std::to_string(size));
  }
  return position;
}

}  // namespace penstock
