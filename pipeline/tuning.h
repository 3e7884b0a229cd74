// What can be turned while a loader runs and never changes what it delivers; and how it is turned by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// The settings of one loader that change speed and memory, never results.
struct Knobs {
  std::size_t threads = 0;          ///< workers of the runtime that may run at once, for all its loaders
  std::size_t block_size = 0;       ///< samples in a block; 0: by measured cost
  std::size_t batches_ahead = 0;    ///< batches that are filled or ready beyond the one in the caller's hands
  std::size_t reads_in_flight = 0;  ///< the most samples that are being read at once
  friend bool operator==(const Knobs&, const Knobs&) = default;
};

/// One change of one knob.
struct TuningDecision {
  std::uint64_t batch = 0;  ///< batches that had been delivered when it was made
  double seconds = 0;       ///< since the loader began
  std::string knob;         ///< `threads`, `block_size`, `batches_ahead`, `reads_in_flight`
  std::size_t from = 0;
  std::size_t to = 0;
  double rate = 0;     ///< samples per second measured before it
  std::string reason;  ///< for people: `+12 % after 4 -> 8, going on`
  friend bool operator==(const TuningDecision&, const TuningDecision&) = default;
};

/// How a loader tunes itself. Results do not change; speed and memory (inside the budget) do.
struct Autotune {
  bool enabled = false;
  /// One measurement lasts at least this long, and at least four batches.
  double interval_seconds = 0.25;
  /// Not empty: nothing is measured; the decisions are made again, each at its batch.
  std::vector<TuningDecision> replay = {};
};

}  // namespace penstock
