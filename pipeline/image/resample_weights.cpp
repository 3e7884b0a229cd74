// The running sum of the weights is rounded, not each weight: so they add up exactly, a picture of one value keeps it,
// and errors of neighbouring weights cancel. Plain double arithmetic without contraction gives the same on all
// machines.
#include <penstock/pipeline/image/resample_weights.h>

#include <algorithm>
#include <cmath>

namespace penstock::detail {
namespace {

// Input pixels per output pixel, and half the width of the triangle in input pixels.
struct Scale {
  double step;
  double radius;
};

Scale scale_of(std::int64_t in, std::int64_t out) noexcept {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  return {step, std::max(step, 1.0)};
}

double triangle(double x) noexcept { return std::max(0.0, 1.0 - std::abs(x)); }

}  // namespace

std::int64_t max_tap_count(std::int64_t in, std::int64_t out) noexcept {
  return std::min(in, static_cast<std::int64_t>(std::ceil(scale_of(in, out).radius)) * 2 + 1);
}

void make_weights(std::int64_t in, std::int64_t out, int fraction_bits, Taps* taps, std::uint32_t* weights) noexcept {
  const Scale scale = scale_of(in, out);
  const std::int64_t stride = max_tap_count(in, out);
  const double one = static_cast<double>(std::int64_t{1} << fraction_bits);
  for (std::int64_t i = 0; i < out; ++i, weights += stride) {
    const double center = (static_cast<double>(i) + 0.5) * scale.step;
    // Pixel j has its centre at j + 0.5; those outside of the picture do not count.
    const auto weight_of = [&](std::int64_t j) {
      return triangle((static_cast<double>(j) + 0.5 - center) / scale.radius);
    };
    std::int64_t begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(center - scale.radius)));
    std::int64_t end = std::min<std::int64_t>(in, static_cast<std::int64_t>(std::ceil(center + scale.radius)));
    while (begin + 1 < end && weight_of(begin) == 0.0) ++begin;
    while (begin + 1 < end && weight_of(end - 1) == 0.0) --end;
    double total = 0;
    for (std::int64_t j = begin; j < end; ++j) total += weight_of(j);
    double sum = 0;
    std::uint32_t given = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      sum += weight_of(j);
      const auto upto = j + 1 == end ? static_cast<std::uint32_t>(one)
                                     : static_cast<std::uint32_t>(std::floor(sum / total * one + 0.5));
      weights[j - begin] = upto - given;
      given = upto;
    }
    taps[i] = {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end - begin)};
  }
}

}  // namespace penstock::detail
