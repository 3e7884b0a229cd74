// The learning rate of each step.
#pragma once

#include <cstdint>

namespace penstock::trainer {

/// A triangle (one cycle): from 0 straight up to `peak` at `peak_fraction` of all steps, straight down to 0 at the end.
/// Each step takes the value in its middle, so neither the first nor the last is wasted.
struct TriangleSchedule {
  double peak = 0.1;
  double peak_fraction = 0.25;  ///< in [0, 1]
  std::uint64_t step_count = 1;

  /// Rate of step `step`, counted from 0 over the whole training.
  float at(std::uint64_t step) const noexcept {
    const double x = (static_cast<double>(step) + 0.5) / static_cast<double>(step_count);
    const double share = x < peak_fraction ? x / peak_fraction : (1 - x) / (1 - peak_fraction);
    return static_cast<float>(peak * share);
  }
};

}  // namespace penstock::trainer
