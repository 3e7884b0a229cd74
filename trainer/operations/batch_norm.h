// Batch normalisation over the rows of [rows, c]. The variance never comes from a difference of large sums: a tile of
// rows takes its mean, then the squared distances from it while the tile is still near; tiles are combined in double by
// M2 = sum of (M2_t + n_t * (mean_t - mean)^2) (Chan, Golub, LeVeque 1979).
#pragma once

#include <cmath>

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

/// Partial moments of one tile of rows. Launched by row with rows = tiles.
struct MomentsTile {
  static constexpr std::int64_t kElementWork = 2 * kTileRows;
  const float* x;
  double* mean;  ///< [tiles, c]
  double* m2;    ///< [tiles, c]
  std::int64_t rows;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t tile, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks(*this, tile, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t tile, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    const std::int64_t first = tile * kTileRows;
    const std::int64_t last = smaller(rows, first + kTileRows);
    Floats value;
    Floats sum{};
    for (std::int64_t row = first; row < last; ++row) {
      load(value, x + row * c + channel);
      sum += value;
    }
    const float count = static_cast<float>(last - first);
    const Floats centre = sum / count;
    Floats distance{};
    Floats square{};
    for (std::int64_t row = first; row < last; ++row) {
      load(value, x + row * c + channel);
      value -= centre;
      distance += value;
      square += value * value;
    }
    // The rounded centre is off by `distance / count`; both moments are moved to the true mean.
    for (int i = 0; i < W; ++i) {
      const double distances = static_cast<double>(channel_of(distance, i));
      const double off = distances / static_cast<double>(count);
      const double squares = static_cast<double>(channel_of(square, i)) - off * distances;
      mean[tile * c + channel + i] = static_cast<double>(channel_of(centre, i)) + off;
      m2[tile * c + channel + i] = squares < 0 ? 0 : squares;
    }
  }
};

/// Combines partial moments first..last of [count, c], each over `part_rows` rows but the last of all.
struct MomentsOf {
  const double* mean;
  const double* m2;
  std::int64_t part_rows;
  std::int64_t rows;
  std::int64_t c;

  PENSTOCK_HD double rows_of(std::int64_t part) const {
    return static_cast<double>(smaller(rows, (part + 1) * part_rows) - part * part_rows);
  }
  PENSTOCK_HD void combine(std::int64_t first, std::int64_t last, std::int64_t channel, double& combined_mean,
                           double& combined_m2) const {
    double weighted = 0;
    double weight = 0;
    for (std::int64_t k = first; k < last; ++k) {
      weighted += rows_of(k) * mean[k * c + channel];
      weight += rows_of(k);
    }
    combined_mean = weighted / weight;
    combined_m2 = 0;
    for (std::int64_t k = first; k < last; ++k) {
      const double distance = mean[k * c + channel] - combined_mean;
      combined_m2 += m2[k * c + channel] + rows_of(k) * distance * distance;
    }
  }
};

/// Moments of a group of tiles. Launched by row with rows = groups.
struct MomentsGroup {
  static constexpr std::int64_t kElementWork = 2 * kGroupTiles;
  MomentsOf tiles;
  std::int64_t tile_count;
  double* mean;  ///< [groups, c]
  double* m2;    ///< [groups, c]

  PENSTOCK_HD void operator()(std::int64_t group, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = group * kGroupTiles;
    const std::int64_t last = smaller(tile_count, first + kGroupTiles);
    for (std::int64_t channel = begin; channel < end; ++channel) {
      const std::int64_t at = group * tiles.c + channel;
      tiles.combine(first, last, channel, mean[at], m2[at]);
    }
  }
};

/// The batch's statistics from the groups', one channel at a time.
struct MomentsFinish {
  static constexpr std::int64_t kElementWork = 2 * kGroupTiles;
  MomentsOf groups;
  std::int64_t group_count;
  float* saved_mean;
  float* saved_inverse_deviation;
  float* running_mean;
  float* running_variance;
  float momentum;
  float eps;

  PENSTOCK_HD void operator()(std::int64_t channel) const {
    double mean = 0;
    double m2 = 0;
    groups.combine(0, group_count, channel, mean, m2);
    const double rows = static_cast<double>(groups.rows);
    saved_mean[channel] = static_cast<float>(mean);
    saved_inverse_deviation[channel] = static_cast<float>(1.0 / std::sqrt(m2 / rows + static_cast<double>(eps)));
    running_mean[channel] = (1 - momentum) * running_mean[channel] + momentum * static_cast<float>(mean);
    running_variance[channel] =
        (1 - momentum) * running_variance[channel] + momentum * static_cast<float>(m2 / (rows - 1));
  }
};

/// y = (x - mean) * inverse_deviation * gamma + beta. Launched by row with rows = tiles.
struct Normalise {
  static constexpr std::int64_t kElementWork = kTileRows;
  const float* x;
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* inverse_deviation;  ///< null: from `variance` and `eps`
  const float* variance;
  float eps;
  float* y;
  std::int64_t rows;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t tile, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks(*this, tile, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t tile, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    float factors[W];
    for (int i = 0; i < W; ++i) {
      const std::int64_t at = channel + i;
      const float inverse = inverse_deviation != nullptr ? inverse_deviation[at] : 1.0F / std::sqrt(variance[at] + eps);
      factors[i] = inverse * gamma[at];
    }
    Floats centre;
    Floats factor;
    Floats shift;
    load(centre, mean + channel);
    load(factor, factors);
    load(shift, beta + channel);
    const std::int64_t last = smaller(rows, (tile + 1) * kTileRows);
    for (std::int64_t row = tile * kTileRows; row < last; ++row) {
      Floats value;
      load(value, x + row * c + channel);
      value = (value - centre) * factor + shift;
      store(y + row * c + channel, value);
    }
  }
};

/// Per tile: sum of dy, and sum of dy * (x - mean). Launched by row with rows = tiles.
struct NormGradientTile {
  static constexpr std::int64_t kElementWork = kTileRows;
  const float* x;
  const float* dy;
  const float* mean;
  double* sum_dy;    ///< [tiles, c]
  double* sum_dy_x;  ///< [tiles, c]
  std::int64_t rows;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t tile, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks(*this, tile, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t tile, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    Floats centre;
    Floats plain{};
    Floats weighted{};
    load(centre, mean + channel);
    const std::int64_t last = smaller(rows, (tile + 1) * kTileRows);
    for (std::int64_t row = tile * kTileRows; row < last; ++row) {
      Floats value;
      Floats gradient;
      load(value, x + row * c + channel);
      load(gradient, dy + row * c + channel);
      plain += gradient;
      weighted += gradient * (value - centre);
    }
    for (int i = 0; i < W; ++i) {
      sum_dy[tile * c + channel + i] = static_cast<double>(channel_of(plain, i));
      sum_dy_x[tile * c + channel + i] = static_cast<double>(channel_of(weighted, i));
    }
  }
};

/// dx = gamma * inv * (dy - dbeta / rows - (x - mean) * inv * dgamma / rows). Launched by row with rows = tiles.
struct NormGradient {
  static constexpr std::int64_t kElementWork = kTileRows;
  const float* x;
  const float* gamma;
  const float* mean;
  const float* inverse_deviation;
  const float* dgamma;
  const float* dbeta;
  const float* dy;
  float* dx;
  std::int64_t rows;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t tile, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks(*this, tile, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t tile, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    const float count = static_cast<float>(rows);
    Floats centre;
    Floats factor;
    Floats mean_dy;
    Floats slope;
    Floats inverse;
    load(centre, mean + channel);
    load(factor, gamma + channel);
    load(mean_dy, dbeta + channel);
    load(slope, dgamma + channel);
    load(inverse, inverse_deviation + channel);
    factor *= inverse;
    mean_dy /= count;
    slope = inverse * (slope / count);
    const std::int64_t last = smaller(rows, (tile + 1) * kTileRows);
    for (std::int64_t row = tile * kTileRows; row < last; ++row) {
      Floats value;
      Floats gradient;
      load(value, x + row * c + channel);
      load(gradient, dy + row * c + channel);
      value = factor * ((gradient - mean_dy) - (value - centre) * slope);
      store(dx + row * c + channel, value);
    }
  }
};

}  // namespace penstock::trainer::operations
