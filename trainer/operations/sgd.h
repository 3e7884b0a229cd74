// Stochastic gradient descent with Nesterov momentum, in the form PyTorch has: the first step has m = g.
#pragma once

#include <penstock/trainer/backend.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

struct SgdUpdate {
  float* w;
  const float* g;
  float* m;
  const StepScalars* scalars;
  float momentum;
  float weight_decay;

  PENSTOCK_HD void operator()(std::int64_t i) const {
    const float gradient = g[i] + weight_decay * w[i];
    const float velocity = momentum * m[i] + gradient;
    m[i] = velocity;
    w[i] -= scalars->learning_rate * (gradient + momentum * velocity);
  }
};

}  // namespace penstock::trainer::operations
