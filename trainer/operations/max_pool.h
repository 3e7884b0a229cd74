// Max pooling with window = stride. Forward keeps where the largest value was; backward is a gather: an input belongs
// to one window at most, and asks whether it was the one. What is not a number wins, as in PyTorch.
#pragma once

#include <penstock/trainer/backend.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

/// Launched by row with rows = N * OH and width = OW * C.
struct MaxPoolForward {
  static constexpr std::int64_t kElementWork = 4;
  PoolShape shape;
  std::int64_t out_h;
  std::int64_t out_w;
  const float* x;
  float* y;
  std::uint8_t* index;

  struct At {
    const float* window;  ///< channel 0 of the window's first pixel
    std::int64_t out;     ///< channel 0 of the output
  };

  PENSTOCK_HD void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t image = row / out_h;
    const std::int64_t first_y = (row - image * out_h) * shape.size;
    const float* line = x + (image * shape.h + first_y) * shape.w * shape.c;
    for (std::int64_t ox = begin / shape.c; ox * shape.c < end; ++ox) {
      const At at{line + ox * shape.size * shape.c, (row * out_w + ox) * shape.c};
      for_channel_blocks<4>(*this, at, larger(0, begin - ox * shape.c), smaller(shape.c, end - ox * shape.c));
    }
  }
  template <int W>
  PENSTOCK_HD void block(const At& at, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    using Ints = typename Channels<W>::Ints;
    const float* first = at.window + channel;
    Floats best;
    Ints where{};
    load(best, first);
    std::int32_t position = 0;
    for (std::int64_t dy = 0; dy < shape.size; ++dy) {
      for (std::int64_t dx = 0; dx < shape.size; ++dx, ++position) {
        Floats value;
        load(value, first + (dy * shape.w + dx) * shape.c);
        const auto wins = (value > best) | (value != value);
        best = wins ? value : best;
        where = wins ? Ints{} + position : where;
      }
    }
    store(y + at.out + channel, best);
    if (index == nullptr) return;
    std::uint8_t* to_index = index + at.out + channel;
    for (int i = 0; i < W; ++i) to_index[i] = static_cast<std::uint8_t>(channel_of(where, i));
  }
};

/// Launched by row with rows = N * H and width = W * C.
struct MaxPoolBackward {
  PoolShape shape;
  std::int64_t out_h;
  std::int64_t out_w;
  const float* dy;
  const std::uint8_t* index;
  float* dx;

  struct At {
    std::int64_t out;  ///< channel 0 of the window's output
    float* to;         ///< channel 0 of the input
    std::int32_t position;
  };

  PENSTOCK_HD void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t c = shape.c;
    const std::int64_t image = row / shape.h;
    const std::int64_t in_y = row - image * shape.h;
    const std::int64_t oy = in_y / shape.size;
    const std::int64_t inside_y = in_y - oy * shape.size;
    float* line = dx + row * shape.w * c;
    std::int64_t in_x = begin / c;
    std::int64_t ox = in_x / shape.size;
    std::int64_t inside_x = in_x - ox * shape.size;
    for (; in_x * c < end; ++in_x) {
      const std::int64_t first = larger(0, begin - in_x * c);
      const std::int64_t last = smaller(c, end - in_x * c);
      float* to = line + in_x * c;
      if (oy >= out_h || ox >= out_w) {
        for (std::int64_t channel = first; channel < last; ++channel) to[channel] = 0;
      } else {
        const At at{((image * out_h + oy) * out_w + ox) * c, to,
                    static_cast<std::int32_t>(inside_y * shape.size + inside_x)};
        for_channel_blocks<4>(*this, at, first, last);
      }
      if (++inside_x == shape.size) {
        inside_x = 0;
        ++ox;
      }
    }
  }
  template <int W>
  PENSTOCK_HD void block(const At& at, std::int64_t channel) const {
    std::int32_t where[W];
    float value[W];
    for (int i = 0; i < W; ++i) where[i] = index[at.out + channel + i];
    for (int i = 0; i < W; ++i) value[i] = dy[at.out + channel + i];
    float* to = at.to + channel;
    for (int i = 0; i < W; ++i) to[i] = where[i] == at.position ? value[i] : 0.0F;
  }
};

}  // namespace penstock::trainer::operations
