// Metrics of a phase: sums over samples, so batches of any size weigh by what is in them.
#pragma once

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// What a phase came to.
struct Metrics {
  double loss = 0;  ///< mean over samples
  double top1 = 0;  ///< fraction
  double top5 = 0;  ///< fraction
};

/// Means over all samples; zeros when there was none.
inline Metrics metrics_of(const MetricSums& sums) noexcept {
  if (sums.count == 0) return {};
  const auto count = static_cast<double>(sums.count);
  return {sums.loss / count, static_cast<double>(sums.top1) / count, static_cast<double>(sums.top5) / count};
}

}  // namespace penstock::trainer
