// A bias vector is added to every row.
#pragma once

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

struct AddBias {
  const float* bias;
  float* y;
  std::int64_t width;

  PENSTOCK_HD void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    float* to = y + row * width;
    PENSTOCK_INDEPENDENT_LOOP
    for (std::int64_t i = begin; i < end; ++i) to[i] += bias[i];
  }
};

}  // namespace penstock::trainer::operations
