// Turns the knobs of a loader towards a higher rate: one knob at a time, by doubling and halving, keeping what helped.
// Pure: it is told the time and what has been delivered, so that it can be tested without either.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/tuning.h>

namespace penstock::engine {

/// Used by one thread.
class Tuner {
 public:
  /// Knobs that are 0 in `start` are the engine's own choice and stay so. `most` bounds each knob from above.
  Tuner(Autotune options, const Knobs& start, const Knobs& most);

  /// One more batch has been delivered: `batches` and `samples` so far, `seconds` since the loader began. The knobs to
  /// be set now, if they change.
  std::optional<Knobs> delivered(std::uint64_t batches, std::uint64_t samples, double seconds);
  /// The last knobs could not be set, `why`: the ones before are in force. Takes the decision back.
  void refused(const std::string& why);

  const Knobs& knobs() const noexcept { return now_; }
  const std::vector<TuningDecision>& decisions() const noexcept { return decisions_; }
  /// True when a whole round has changed nothing; it begins again when the rate falls by a third.
  bool settled() const noexcept { return settled_; }

 private:
  struct Trial {
    std::size_t knob = 0;  // position in kKnobs
    std::size_t from = 0;
    bool up = true;
  };
  std::optional<Knobs> replayed(std::uint64_t batches, double seconds);
  std::optional<Knobs> measured(double rate);
  bool begin_trial(std::size_t knob, bool up);
  std::optional<Knobs> next_trial();
  void decide(std::size_t knob, std::size_t to, std::string reason);

  Autotune options_;
  Knobs now_;
  Knobs most_;
  std::vector<TuningDecision> decisions_;
  std::size_t replay_at_ = 0;
  std::uint64_t batches_ = 0;  // at the last call
  double seconds_ = 0;
  double rate_ = 0;
  // The measurement that is going on.
  bool warming_ = true;
  std::uint64_t begin_batches_ = 0;
  std::uint64_t begin_samples_ = 0;
  double begin_seconds_ = 0;
  // The climb.
  double best_rate_ = 0;
  std::optional<Trial> trial_;
  std::size_t knob_ = 0;       // the next to be tried
  bool tried_up_ = false;      // and in which directions it has been
  std::size_t unchanged_ = 0;  // knobs in a row that changed nothing
  bool settled_ = false;
};

}  // namespace penstock::engine
