// Sums over the rows of a [rows, c] matrix: a partial sum per tile of rows, tiles into groups, groups into the result,
// always in index order.
#pragma once

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

/// partial[tile, channel] = sum of the tile's rows. Launched by row with rows = tiles.
struct ColumnSumTile {
  static constexpr std::int64_t kElementWork = kTileRows;
  const float* x;
  double* partial;
  std::int64_t rows;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t tile, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks(*this, tile, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t tile, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    Floats sum{};
    const std::int64_t last = smaller(rows, (tile + 1) * kTileRows);
    for (std::int64_t row = tile * kTileRows; row < last; ++row) {
      Floats value;
      load(value, x + row * c + channel);
      sum += value;
    }
    for (int i = 0; i < W; ++i) partial[tile * c + channel + i] = static_cast<double>(channel_of(sum, i));
  }
};

/// to[group, channel] = sum of up to kGroupTiles rows of `from` [count, c]. Launched by row with rows = groups.
struct ColumnSumGroup {
  static constexpr std::int64_t kElementWork = kGroupTiles;
  const double* from;
  double* to;
  std::int64_t count;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t group, std::int64_t begin, std::int64_t end) const {
    const std::int64_t last = smaller(count, (group + 1) * kGroupTiles);
    for (std::int64_t channel = begin; channel < end; ++channel) {
      double sum = 0;
      for (std::int64_t k = group * kGroupTiles; k < last; ++k) sum += from[k * c + channel];
      to[group * c + channel] = sum;
    }
  }
};

/// y[channel] = factor[channel] * sum of the rows of `from` [count, c]; `factor` may be null.
struct ColumnSumFinish {
  static constexpr std::int64_t kElementWork = kGroupTiles;
  const double* from;
  std::int64_t count;
  std::int64_t c;
  const float* factor;
  float* y;

  PENSTOCK_HD void operator()(std::int64_t channel) const {
    double sum = 0;
    for (std::int64_t k = 0; k < count; ++k) sum += from[k * c + channel];
    if (factor != nullptr) sum *= static_cast<double>(factor[channel]);
    y[channel] = static_cast<float>(sum);
  }
};

}  // namespace penstock::trainer::operations
