// The rectifier. What is not a number stays so, for a model that diverges must show it.
#pragma once

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

struct ReluForward {
  const float* x;
  float* y;
  PENSTOCK_HD void operator()(std::int64_t i) const {
    const float value = x[i];
    y[i] = value <= 0 ? 0.0F : value;
  }
};

struct ReluBackward {
  const float* y;
  const float* dy;
  float* dx;
  PENSTOCK_HD void operator()(std::int64_t i) const {
    const float gradient = dy[i];
    dx[i] = y[i] > 0 ? gradient : 0.0F;
  }
};

}  // namespace penstock::trainer::operations
