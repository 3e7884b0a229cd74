// Compiled once for each instruction set (Highway's foreach_target; the one without vectors has plain transpositions).
// Sixteen bits are enough because weights of at most kMaxKernelTaps taps have 15 of them and values 15: products are
// cut to 7 fraction bits one by one. All of it is integer arithmetic whose order does not matter, so every instruction
// set gives the same bytes. In the horizontal pass each lane is a row: no gathers, no tables of shuffles, any number of
// channels, at the price of two transpositions.
#include <penstock/pipeline/image/resample_kernels.h>

#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "penstock/pipeline/image/resample_kernels.cpp"
#include <hwy/foreach_target.h>
// The list of targets comes before the operations.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void VerticalPass(const std::uint8_t* HWY_RESTRICT in, std::ptrdiff_t in_stride,
                  const std::uint32_t* HWY_RESTRICT weights, std::size_t taps, std::size_t count,
                  std::uint16_t* HWY_RESTRICT out) {
  const hn::ScalableTag<std::uint16_t> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const std::size_t lanes = hn::Lanes(d16);
  // Each product is rounded down: half a unit too little on average, given back here.
  const auto start = static_cast<std::uint16_t>(taps / 2);
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    auto sum0 = hn::Set(d16, start);
    auto sum1 = sum0;
    const std::uint8_t* row = in + i;
    for (std::size_t k = 0; k < taps; ++k, row += in_stride) {
      const auto weight = hn::Set(d16, static_cast<std::uint16_t>(weights[k]));
      sum0 = hn::Add(sum0, hn::MulHigh(hn::ShiftLeft<8>(hn::PromoteTo(d16, hn::LoadU(d8, row))), weight));
      sum1 = hn::Add(sum1, hn::MulHigh(hn::ShiftLeft<8>(hn::PromoteTo(d16, hn::LoadU(d8, row + lanes))), weight));
    }
    hn::StoreU(sum0, d16, out + i);
    hn::StoreU(sum1, d16, out + i + lanes);
  }
  for (; i < count; ++i) {
    std::uint32_t sum = start;
    for (std::size_t k = 0; k < taps; ++k) {
      sum += (std::uint32_t{in[static_cast<std::ptrdiff_t>(k) * in_stride + static_cast<std::ptrdiff_t>(i)]} << 8) *
                 weights[k] >>
             16;
    }
    out[i] = static_cast<std::uint16_t>(sum);
  }
}

void HorizontalPass(const std::uint16_t* HWY_RESTRICT in, const Taps* HWY_RESTRICT taps,
                    const std::uint32_t* HWY_RESTRICT weights, std::size_t weight_stride, std::size_t out_width,
                    std::size_t channels, std::uint16_t* HWY_RESTRICT out) {
  const hn::CappedTag<std::int16_t, kBandRows> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t group = channels * kBandRows;
  for (std::size_t x = 0; x < out_width; ++x, weights += weight_stride, out += group) {
    const std::uint16_t* const first = in + static_cast<std::size_t>(taps[x].first) * group;
    const auto count = static_cast<std::size_t>(taps[x].count);
    const auto weight_of = [&](std::size_t k) {
      // A weight of one, 32768, does not fit; 32767 is near enough to give the same level.
      return hn::Set(d, static_cast<std::int16_t>(weights[k] < 32767 ? weights[k] : 32767));
    };
    const auto term = [&](std::size_t k, std::size_t at, auto weight) {
      return hn::MulFixedPoint15(hn::BitCast(d, hn::LoadU(du, first + k * group + at)), weight);
    };
    const auto store = [&](auto sum, std::size_t at) {
      hn::StoreU(hn::ShiftRight<7>(hn::BitCast(du, sum)), du, out + at);
    };
    const auto half_level = hn::Set(d, 64);
    std::size_t at = 0;
    // Three at a time: the short loop over the taps is mispredicted once for all of them.
    for (; at + 3 * lanes <= group; at += 3 * lanes) {
      auto sum0 = half_level, sum1 = half_level, sum2 = half_level;
      for (std::size_t k = 0; k < count; ++k) {
        const auto weight = weight_of(k);
        sum0 = hn::Add(sum0, term(k, at, weight));
        sum1 = hn::Add(sum1, term(k, at + lanes, weight));
        sum2 = hn::Add(sum2, term(k, at + 2 * lanes, weight));
      }
      store(sum0, at);
      store(sum1, at + lanes);
      store(sum2, at + 2 * lanes);
    }
    for (; at < group; at += lanes) {
      auto sum = half_level;
      for (std::size_t k = 0; k < count; ++k) sum = hn::Add(sum, term(k, at, weight_of(k)));
      store(sum, at);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

void RowsToLanes(const std::uint16_t* rows, std::size_t stride, std::size_t count, std::uint16_t* lanes) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < kBandRows; ++r) lanes[i * kBandRows + r] = rows[r * stride + i];
  }
}

void LanesToRows(const std::uint16_t* lanes, std::size_t count, std::size_t rows, std::ptrdiff_t stride,
                 std::uint8_t* out) {
  for (std::size_t r = 0; r < rows; ++r, out += stride) {
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(lanes[i * kBandRows + r]);
  }
}

#else

using Eight = hn::FixedTag<std::uint16_t, 8>;
using EightValues = hn::Vec<Eight>;

// Eight rows of eight become eight columns.
HWY_INLINE void Transpose(std::array<EightValues, 8>& v) {
  const Eight d;
  const hn::Repartition<std::uint32_t, Eight> d32;
  const hn::Repartition<std::uint64_t, Eight> d64;
  const auto low32 = [&](EightValues a, EightValues b) {
    return hn::BitCast(d, hn::InterleaveLower(d32, hn::BitCast(d32, a), hn::BitCast(d32, b)));
  };
  const auto high32 = [&](EightValues a, EightValues b) {
    return hn::BitCast(d, hn::InterleaveUpper(d32, hn::BitCast(d32, a), hn::BitCast(d32, b)));
  };
  const auto low64 = [&](EightValues a, EightValues b) {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto high64 = [&](EightValues a, EightValues b) {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  // Pairs of rows, then fours, then all eight; the number says which columns are inside.
  const EightValues a03 = hn::InterleaveLower(d, v[0], v[1]), a47 = hn::InterleaveUpper(d, v[0], v[1]);
  const EightValues b03 = hn::InterleaveLower(d, v[2], v[3]), b47 = hn::InterleaveUpper(d, v[2], v[3]);
  const EightValues c03 = hn::InterleaveLower(d, v[4], v[5]), c47 = hn::InterleaveUpper(d, v[4], v[5]);
  const EightValues e03 = hn::InterleaveLower(d, v[6], v[7]), e47 = hn::InterleaveUpper(d, v[6], v[7]);
  const EightValues upper01 = low32(a03, b03), upper23 = high32(a03, b03);
  const EightValues upper45 = low32(a47, b47), upper67 = high32(a47, b47);
  const EightValues lower01 = low32(c03, e03), lower23 = high32(c03, e03);
  const EightValues lower45 = low32(c47, e47), lower67 = high32(c47, e47);
  v = {low64(upper01, lower01), high64(upper01, lower01), low64(upper23, lower23), high64(upper23, lower23),
       low64(upper45, lower45), high64(upper45, lower45), low64(upper67, lower67), high64(upper67, lower67)};
}

void RowsToLanes(const std::uint16_t* HWY_RESTRICT rows, std::size_t stride, std::size_t count,
                 std::uint16_t* HWY_RESTRICT lanes) {
  const Eight d;
  for (std::size_t half = 0; half < kBandRows; half += 8) {
    for (std::size_t i = 0; i < count; i += 8) {
      std::array<EightValues, 8> v;
      for (std::size_t r = 0; r < 8; ++r) v[r] = hn::LoadU(d, rows + (half + r) * stride + i);
      Transpose(v);
      for (std::size_t r = 0; r < 8; ++r) hn::StoreU(v[r], d, lanes + (i + r) * kBandRows + half);
    }
  }
}

void LanesToRows(const std::uint16_t* HWY_RESTRICT lanes, std::size_t count, std::size_t rows, std::ptrdiff_t stride,
                 std::uint8_t* HWY_RESTRICT out) {
  const Eight d;
  const hn::Repartition<std::int16_t, Eight> signed16;
  const hn::FixedTag<std::uint8_t, 8> d8;
  for (std::size_t half = 0; half < rows; half += 8) {
    const std::size_t here = rows - half < 8 ? rows - half : 8;
    for (std::size_t i = 0; i < count; i += 8) {
      std::array<EightValues, 8> v;
      for (std::size_t r = 0; r < 8; ++r) v[r] = hn::LoadU(d, lanes + (i + r) * kBandRows + half);
      Transpose(v);
      for (std::size_t r = 0; r < here; ++r) {
        const auto bytes = hn::DemoteTo(d8, hn::BitCast(signed16, v[r]));
        std::uint8_t* const to = out + static_cast<std::ptrdiff_t>(half + r) * stride + static_cast<std::ptrdiff_t>(i);
        if (count - i >= 8) {
          hn::StoreU(bytes, d8, to);
        } else {
          std::array<std::uint8_t, 8> last;
          hn::StoreU(bytes, d8, last.data());
          std::memcpy(to, last.data(), count - i);
        }
      }
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(VerticalPass);
HWY_EXPORT(RowsToLanes);
HWY_EXPORT(HorizontalPass);
HWY_EXPORT(LanesToRows);

void vertical_pass(const std::uint8_t* in, std::ptrdiff_t in_stride, const std::uint32_t* weights, std::size_t taps,
                   std::size_t count, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(VerticalPass)(in, in_stride, weights, taps, count, out);
}
void rows_to_lanes(const std::uint16_t* rows, std::size_t stride, std::size_t count, std::uint16_t* lanes) {
  HWY_DYNAMIC_DISPATCH(RowsToLanes)(rows, stride, count, lanes);
}
void horizontal_pass(const std::uint16_t* in, const Taps* taps, const std::uint32_t* weights, std::size_t weight_stride,
                     std::size_t out_width, std::size_t channels, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(HorizontalPass)(in, taps, weights, weight_stride, out_width, channels, out);
}
void lanes_to_rows(const std::uint16_t* lanes, std::size_t count, std::size_t rows, std::ptrdiff_t stride,
                   std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(LanesToRows)(lanes, count, rows, stride, out);
}

}  // namespace penstock::detail
#endif
