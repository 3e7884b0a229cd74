// What limits a loader, how near it is to what the machine can do, and what the next step would bring.
//
// The model. Of a report, or of what lies between two reports, a sample costs (all divided by the samples delivered)
//   c[s]  thread time in stage s ("read" is stage 0),   W = sum of c[s],
//   l     time between a request to the source and its answer,
//   k     the consumer's time outside of next().
// With T threads, at most R reads in flight and unlimited time, three things bound the rate, samples a second:
//   threads: T / W      reading: R / l      consumer: 1 / k
// where R is `knobs.reads_in_flight`, and never more than what the open batches have, batches_ahead * batch size. The
// least of them is what limits the loader, and min() below is that least. What the loader really reached, r, is below
// min() by what no stage accounts for; a change that makes it min'() is predicted to give r * min'() / min():
//   one more thread, or core where every core has one:  T + 1
//   twice the reads in flight (the knob is what binds):  2 R, at most what the open batches have
//   twice the batches ahead (the open batches are what binds):  2 R
//   a cache after stage i, once it is full:  W - (c[0] + ... + c[i]) + b[i] / copy rate,  and no reading,
//     where b[i] are the bytes that stage i writes for a sample; it needs b[i] * samples of the source in memory
//   a consumer that takes no time:  1 / k drops out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/report/machine_limits.h>

namespace penstock {

/// What the report does not say.
struct VerdictOptions {
  std::size_t batch_size = 1;
  /// Samples that a cache would keep; 0: no cache is proposed.
  std::uint64_t source_samples = 0;
  /// How many stages of the report, "read" included, a cache may stand behind; 0: none.
  std::size_t cacheable_stages = 0;
  /// An earlier report of the same loader: only what has come since is judged, so that the start is left out.
  std::optional<LoaderReport> since = {};
};

/// Options for the loaders of `pipeline`: its batch, its source, and the maps up to the first that draws or drops. No
/// cache is proposed where there is one, nor for a plan that is not flat (see Plan).
VerdictOptions verdict_options(const Pipeline& pipeline);

/// What the rate is bounded by.
enum class Bound : std::uint8_t {
  kNothing,   ///< no batch was delivered
  kThreads,   ///< the stages' work: more threads or less work
  kReading,   ///< the answers of the source: more reads at once
  kConsumer,  ///< the caller: the loader could give more
};

/// A change and what the model predicts for it.
struct VerdictStep {
  enum class Kind : std::uint8_t { kThread, kCore, kReads, kPrefetch, kCache, kConsumer };
  Kind kind;
  std::string stage;         ///< kCache: the stage that it stands behind
  std::size_t to = 0;        ///< kThread, kCore, kReads, kPrefetch: the new number
  double samples_per_s = 0;  ///< predicted
  double gain = 0;           ///< 0.48: 48 % more
  std::uint64_t bytes = 0;   ///< kCache: needed
  std::string text;          ///< `one more thread: +48 %`
};

/// A stage's part of the threads' time.
struct StageShare {
  std::string name;
  double share = 0;          ///< of all stages' thread time
  double samples_per_s = 0;  ///< one thread that does nothing else; 0 when it took no time
};

/// The judgement of one report.
struct Verdict {
  Bound bound = Bound::kNothing;
  std::string stage;                  ///< the stage that takes most of the threads' time
  double samples_per_s = 0;           ///< reached
  double threads_samples_per_s = 0;   ///< T / W; 0 stands for no limit, here and in the next two
  double reading_samples_per_s = 0;   ///< R / l
  double consumer_samples_per_s = 0;  ///< 1 / k
  double share_of_limit = 0;          ///< of MachineLimits::samples_per_s with the threads there are; 0: not measured
  std::vector<StageShare> stages;
  std::vector<VerdictStep> steps;  ///< those that gain, the best first; one that needs more memory than there is, last
  std::string text;                ///< all of this in a sentence
};

/// Judges a report. Pure: asks no clock and no machine. Safe for concurrent use.
Verdict verdict(const LoaderReport& report, const MachineLimits& limits, const VerdictOptions& options);

/// `2.1 GB`, `340 MB`, `512 B`: decimal, two digits.
std::string bytes_text(double bytes);

}  // namespace penstock
