// What a feed brings becomes what a model reads: bytes become normalised floats, wide labels narrow ones, and rows
// without a sample become zeros and -1.
#pragma once

#include <penstock/trainer/backend.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

/// A row is an image of pixels * c bytes.
struct CastNormalise {
  const std::uint8_t* in;
  float* out;
  std::int64_t row_elements;
  std::int64_t c;
  Normalisation normalisation;
  std::int64_t valid;

  PENSTOCK_HD void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::uint8_t* from = in + row * row_elements;
    float* to = out + row * row_elements;
    if (row >= valid) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = 0;
      return;
    }
    if (c == 1) {
      const float mean = normalisation.mean[0];
      const float inverse_deviation = normalisation.inverse_deviation[0];
      PENSTOCK_INDEPENDENT_LOOP
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = (static_cast<float>(from[i]) / 255.0F - mean) * inverse_deviation;
      }
      return;
    }
    std::int64_t channel = begin % c;
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = (static_cast<float>(from[i]) / 255.0F - normalisation.mean[channel]) *
              normalisation.inverse_deviation[channel];
      if (++channel == c) channel = 0;
    }
  }
};

/// A label too large for 32 bits becomes the largest one, which no model has as a class.
struct CopyLabels {
  const std::int64_t* in;
  std::int32_t* out;
  std::int64_t valid;

  PENSTOCK_HD void operator()(std::int64_t i) const {
    const std::int64_t label = i < valid ? in[i] : -1;
    out[i] = label < 0 ? -1 : static_cast<std::int32_t>(smaller(label, INT32_MAX));
  }
};

}  // namespace penstock::trainer::operations
