// Sums, multiples, copies and constants, element by element.
#pragma once

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

struct Add {
  const float* a;
  const float* b;
  float* y;
  PENSTOCK_HD void operator()(std::int64_t i) const { y[i] = a[i] + b[i]; }
};

struct Scale {
  float factor;
  const float* x;
  float* y;
  PENSTOCK_HD void operator()(std::int64_t i) const { y[i] = factor * x[i]; }
};

struct Copy {
  const float* x;
  float* y;
  PENSTOCK_HD void operator()(std::int64_t i) const { y[i] = x[i]; }
};

struct Fill {
  float value;
  float* y;
  PENSTOCK_HD void operator()(std::int64_t i) const { y[i] = value; }
};

/// y[i] = the sum of parts[part][i], in order of the parts.
struct AddParts {
  const float* parts;
  std::int64_t part_count;
  std::int64_t part_elements;
  float* y;
  PENSTOCK_HD void operator()(std::int64_t i) const {
    float sum = parts[i];
    for (std::int64_t part = 1; part < part_count; ++part) sum += parts[part * part_elements + i];
    y[i] = sum;
  }
};

}  // namespace penstock::trainer::operations
