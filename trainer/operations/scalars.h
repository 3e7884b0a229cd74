// The scalars of a step become bytes that kernels read.
#pragma once

#include <penstock/trainer/backend.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

struct SetScalars {
  StepScalars* to;
  StepScalars value;
  PENSTOCK_HD void operator()(std::int64_t) const { *to = value; }
};

}  // namespace penstock::trainer::operations
