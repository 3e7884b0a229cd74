// Softmax, cross-entropy with label smoothing, its gradient and the metrics, a row at a time; the rows' results are
// added in row order by one thread. Exponentials are float, sums and logarithms double.
#pragma once

#include <cmath>

#include <penstock/trainer/backend.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

/// What one row adds to the sums.
struct RowMetrics {
  double loss;
  std::int32_t counted;
  std::int32_t top1;
  std::int32_t top5;
  std::int32_t not_finite;
};

/// counts[tile] = rows of the tile that have a label.
struct CountLabels {
  static constexpr std::int64_t kElementWork = kTileRows;
  const std::int32_t* labels;
  std::int64_t n;
  std::int32_t* counts;

  PENSTOCK_HD void operator()(std::int64_t tile) const {
    const std::int64_t last = smaller(n, (tile + 1) * kTileRows);
    std::int32_t count = 0;
    for (std::int64_t row = tile * kTileRows; row < last; ++row) count += labels[row] >= 0 ? 1 : 0;
    counts[tile] = count;
  }
};

/// A label that is no class makes its row's loss not a number; it is never used as an address.
struct SoftmaxCrossEntropyRow {
  static constexpr std::int64_t kElementWork = 512;
  const float* logits;
  const std::int32_t* labels;
  std::int64_t classes;
  float smoothing;
  float* dlogits;
  const std::int32_t* counts;
  std::int64_t count_tiles;
  RowMetrics* metrics;

  PENSTOCK_HD void operator()(std::int64_t row) const {
    const float* x = logits + row * classes;
    float* dx = dlogits == nullptr ? nullptr : dlogits + row * classes;
    const std::int32_t label = labels[row];
    RowMetrics result{0, 0, 0, 0, 0};
    if (label < 0) {
      metrics[row] = result;
      if (dx != nullptr) {
        for (std::int64_t k = 0; k < classes; ++k) dx[k] = 0;
      }
      return;
    }
    float largest = x[0];
    for (std::int64_t k = 1; k < classes; ++k) largest = x[k] > largest ? x[k] : largest;
    double exponentials = 0;
    double distances = 0;  // from the largest
    for (std::int64_t k = 0; k < classes; ++k) {
      const float distance = x[k] - largest;
      exponentials += static_cast<double>(std::exp(distance));
      distances += static_cast<double>(distance);
    }
    const double log_sum = std::log(exponentials);
    const bool is_class = label < classes;
    const double smooth = static_cast<double>(smoothing);
    double loss = log_sum - (is_class ? static_cast<double>(x[label] - largest) : static_cast<double>(NAN));
    if (smoothing != 0) {
      const double uniform = log_sum - distances / static_cast<double>(classes);
      loss = (1 - smooth) * loss + smooth * uniform;
    }
    result.loss = loss;
    result.counted = 1;
    result.not_finite = loss - loss == 0 ? 0 : 1;
    if (is_class) {
      std::int64_t before = 0;  // classes that come before the label; what is not a number comes first
      for (std::int64_t k = 0; k < classes; ++k) {
        const bool is_before = !(x[k] <= x[label]) || (x[k] == x[label] && k < label);
        before += is_before && k != label ? 1 : 0;
      }
      result.top1 = before < 1 ? 1 : 0;
      result.top5 = before < 5 ? 1 : 0;
    }
    metrics[row] = result;
    if (dx == nullptr) return;
    std::int64_t valid = 0;
    for (std::int64_t tile = 0; tile < count_tiles; ++tile) valid += counts[tile];
    const double each = smooth / static_cast<double>(classes);
    for (std::int64_t k = 0; k < classes; ++k) {
      const double probability = static_cast<double>(std::exp(x[k] - largest)) / exponentials;
      const double target = each + (k == label ? 1 - smooth : 0.0);
      dx[k] = static_cast<float>((probability - target) / static_cast<double>(valid));
    }
  }
};

/// Adds the rows to the sums, in order. One thread.
struct AddMetrics {
  const RowMetrics* metrics;
  std::int64_t n;
  MetricSums* sums;

  PENSTOCK_HD void operator()(std::int64_t) const {
    MetricSums total = *sums;
    for (std::int64_t row = 0; row < n; ++row) {
      if (metrics[row].counted == 0) continue;
      total.loss += metrics[row].loss;
      total.count += 1;
      total.top1 += metrics[row].top1;
      total.top5 += metrics[row].top5;
      total.not_finite += metrics[row].not_finite;
    }
    *sums = total;
  }
};

}  // namespace penstock::trainer::operations
