// What this machine can do at most: measured rates that a verdict compares a loader with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <penstock/pipeline/pipeline.h>

namespace penstock {

/// Limits of one machine for one pipeline.
struct MachineLimits {
  std::size_t cores = 1;
  /// What `samples_per_s` is the rate of: `picture decoding rate`, `copy rate`; empty: nothing was measured.
  std::string limit;
  /// The most samples that one thread, doing nothing else, takes in a second; 0: not measured.
  double samples_per_s = 0;
  /// Bytes that one thread copies in a second; 0: not measured.
  double copy_bytes_per_s = 0;
  /// Memory of the machine, for what may be cached; 0: not known.
  std::uint64_t memory_bytes = 0;
};

/// How long the measurements take, at most.
struct MeasureOptions {
  std::size_t samples = 64;  ///< of the source, spread over it evenly, that are decoded
  double seconds = 0.5;      ///< no further sample is begun after that much time
  std::size_t passes = 2;    ///< over the same samples; the fastest counts, so a first one warms files and caches
};

/// Measures what bounds `pipeline` here, on the calling thread, in its processor time. Where a map decodes pictures:
/// reading and decoding whole pictures of its source, nothing after that. Else: copying rows of its batch. A picture
/// that cannot be decoded is left out; when none can be, nothing is measured. Blocks.
MachineLimits measure_limits(const Pipeline& pipeline, const MeasureOptions& options = {});

}  // namespace penstock
