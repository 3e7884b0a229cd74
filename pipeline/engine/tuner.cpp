// A change is kept when the rate rises by more than kWorth, which is about the noise of a measurement; then the same
// step is tried again. Otherwise it is taken back and the other direction is tried, then the next knob.
#include <penstock/pipeline/engine/tuner.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::engine {
namespace {

constexpr double kWorth = 1.02;
constexpr double kFallen = 2.0 / 3.0;
constexpr std::uint64_t kWarmBatches = 2;
constexpr std::uint64_t kMeasuredBatches = 4;

struct Knob {
  const char* name;
  std::size_t Knobs::* value;
};
constexpr std::array<Knob, 4> kKnobs{{{"reads_in_flight", &Knobs::reads_in_flight},
                                      {"batches_ahead", &Knobs::batches_ahead},
                                      {"threads", &Knobs::threads},
                                      {"block_size", &Knobs::block_size}}};

std::string percent(double ratio) {
  const long change = std::lround((ratio - 1) * 100);
  return (change < 0 ? "" : "+") + std::to_string(change) + " %";
}

}  // namespace

Tuner::Tuner(Autotune options, const Knobs& start, const Knobs& most)
    : options_(std::move(options)), now_(start), most_(most) {}

std::optional<Knobs> Tuner::delivered(std::uint64_t batches, std::uint64_t samples, double seconds) {
  batches_ = batches;
  seconds_ = seconds;
  if (!options_.replay.empty()) return replayed(batches, seconds);
  if (warming_) {
    // What was under way when a knob was turned says nothing about the new setting.
    if (batches < begin_batches_ + kWarmBatches + now_.batches_ahead) return std::nullopt;
    warming_ = false;
    begin_batches_ = batches;
    begin_samples_ = samples;
    begin_seconds_ = seconds;
    return std::nullopt;
  }
  const double elapsed = seconds - begin_seconds_;
  if (batches < begin_batches_ + kMeasuredBatches || elapsed < options_.interval_seconds || elapsed <= 0) {
    return std::nullopt;
  }
  rate_ = static_cast<double>(samples - begin_samples_) / elapsed;
  std::optional<Knobs> next = measured(rate_);
  begin_batches_ = batches;
  begin_samples_ = samples;
  begin_seconds_ = seconds;
  warming_ = next.has_value();
  return next;
}

std::optional<Knobs> Tuner::replayed(std::uint64_t batches, double seconds) {
  const Knobs before = now_;
  for (; replay_at_ < options_.replay.size() && options_.replay[replay_at_].batch <= batches; ++replay_at_) {
    const TuningDecision& decision = options_.replay[replay_at_];
    for (const Knob& knob : kKnobs) {
      if (decision.knob != knob.name) continue;
      TuningDecision made = decision;
      made.batch = batches;
      made.seconds = seconds;
      made.from = now_.*knob.value;
      now_.*knob.value = decision.to;
      decisions_.push_back(std::move(made));
    }
  }
  return now_ == before ? std::nullopt : std::optional(now_);
}

std::optional<Knobs> Tuner::measured(double rate) {
  if (settled_) {
    if (rate >= best_rate_ * kFallen) return std::nullopt;
    settled_ = false;  // the work has become another one
    unchanged_ = 0;
    best_rate_ = rate;
    return next_trial();
  }
  if (!trial_) {
    best_rate_ = rate;
    return next_trial();
  }
  const Trial trial = *trial_;
  trial_.reset();
  const double ratio = rate / best_rate_;
  if (ratio > kWorth) {
    best_rate_ = rate;
    unchanged_ = 0;
    decisions_.back().reason += ": " + percent(ratio) + ", kept";
    if (begin_trial(trial.knob, trial.up)) return now_;
    tried_up_ = false;
    knob_ = (trial.knob + 1) % kKnobs.size();
    return next_trial();
  }
  decide(trial.knob, trial.from, "back: " + percent(ratio));
  const Knobs reverted = now_;
  // The way back is a change of its own; what is tried next begins from there.
  if (std::optional<Knobs> next = next_trial()) return next;
  return reverted;
}

std::optional<Knobs> Tuner::next_trial() {
  while (unchanged_ < kKnobs.size()) {
    if (!tried_up_) {
      tried_up_ = true;
      if (begin_trial(knob_, true)) return now_;
    }
    tried_up_ = false;
    const std::size_t knob = knob_;
    knob_ = (knob_ + 1) % kKnobs.size();
    ++unchanged_;
    if (begin_trial(knob, false)) return now_;
  }
  settled_ = true;
  return std::nullopt;
}

bool Tuner::begin_trial(std::size_t knob, bool up) {
  const std::size_t from = now_.*kKnobs[knob].value;
  if (from == 0) return false;
  const std::size_t to = up ? std::min(from * 2, most_.*kKnobs[knob].value) : std::max<std::size_t>(1, from / 2);
  if (to == from || (up && to < from)) return false;
  trial_ = Trial{knob, from, up};
  decide(knob, to, "tried");
  return true;
}

void Tuner::decide(std::size_t knob, std::size_t to, std::string reason) {
  std::size_t& value = now_.*kKnobs[knob].value;
  decisions_.push_back({batches_, seconds_, kKnobs[knob].name, value, to, rate_, std::move(reason)});
  value = to;
}

void Tuner::refused(const std::string& why) {
  if (!trial_) return;
  now_.*kKnobs[trial_->knob].value = trial_->from;
  decisions_.back().to = trial_->from;
  decisions_.back().reason = "refused: " + why;
  most_.*kKnobs[trial_->knob].value = std::max<std::size_t>(1, trial_->from);
  trial_.reset();
}

}  // namespace penstock::engine
