// Pooling over a whole map: [n, pixels, c] -> [n, c]. Rows are images.
#pragma once

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

struct GlobalMaxPoolForward {
  static constexpr std::int64_t kElementWork = 16;
  const float* x;
  float* y;
  std::int32_t* index;
  std::int64_t pixels;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t image, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks<4>(*this, image, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t image, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    using Ints = typename Channels<W>::Ints;
    const float* first = x + image * pixels * c + channel;
    Floats best;
    Ints where{};
    load(best, first);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      Floats value;
      load(value, first + pixel * c);
      const auto wins = (value > best) | (value != value);
      best = wins ? value : best;
      where = wins ? Ints{} + static_cast<std::int32_t>(pixel) : where;
    }
    store(y + image * c + channel, best);
    if (index == nullptr) return;
    for (int i = 0; i < W; ++i) index[image * c + channel + i] = channel_of(where, i);
  }
};

struct GlobalMaxPoolBackward {
  static constexpr std::int64_t kElementWork = 16;
  const float* dy;
  const std::int32_t* index;
  float* dx;
  std::int64_t pixels;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t image, std::int64_t begin, std::int64_t end) const {
    const float* gradient = dy + image * c;
    const std::int32_t* where = index + image * c;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      float* to = dx + (image * pixels + pixel) * c;
      const std::int32_t position = static_cast<std::int32_t>(pixel);
      PENSTOCK_INDEPENDENT_LOOP
      for (std::int64_t channel = begin; channel < end; ++channel) {
        const float value = gradient[channel];
        to[channel] = where[channel] == position ? value : 0.0F;
      }
    }
  }
};

struct GlobalAveragePoolForward {
  static constexpr std::int64_t kElementWork = 16;
  const float* x;
  float* y;
  std::int64_t pixels;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t image, std::int64_t begin, std::int64_t end) const {
    for_channel_blocks(*this, image, begin, end);
  }
  template <int W>
  PENSTOCK_HD void block(std::int64_t image, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    Floats sum{};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      Floats value;
      load(value, x + (image * pixels + pixel) * c + channel);
      sum += value;
    }
    sum /= static_cast<float>(pixels);
    store(y + image * c + channel, sum);
  }
};

struct GlobalAveragePoolBackward {
  static constexpr std::int64_t kElementWork = 16;
  const float* dy;
  float* dx;
  std::int64_t pixels;
  std::int64_t c;

  PENSTOCK_HD void operator()(std::int64_t image, std::int64_t begin, std::int64_t end) const {
    const float* gradient = dy + image * c;
    const float count = static_cast<float>(pixels);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      float* to = dx + (image * pixels + pixel) * c;
      PENSTOCK_INDEPENDENT_LOOP
      for (std::int64_t channel = begin; channel < end; ++channel) to[channel] = gradient[channel] / count;
    }
  }
};

}  // namespace penstock::trainer::operations
