// The cuts of a convolution, and products over many chunks against a plain loop in double.
#include <penstock/trainer/conv_chunks.h>

#include <gtest/gtest.h>

#include "stored_tensors.h"

namespace penstock::trainer {
namespace {

const std::vector<ConvShape> kShapes{
    {1, 1, 1, 1, 1, 1, 1, 1, 0},      {1, 5, 5, 3, 4, 3, 3, 1, 1},        {128, 32, 32, 1, 8, 3, 3, 1, 1},
    {128, 32, 32, 8, 16, 3, 3, 1, 1}, {64, 7, 7, 512, 512, 3, 3, 1, 1},   {64, 224, 224, 3, 64, 7, 7, 2, 3},
    {3, 56, 56, 64, 64, 3, 3, 1, 1},  {9, 14, 14, 1024, 256, 1, 1, 1, 0}, {7, 9, 9, 16, 16, 1, 1, 2, 0}};

TEST(ConvChunksTest, LanesCoverAllUnitsOnce) {
  for (const ConvShape& shape : kShapes) {
    for (const std::int64_t launch_lanes : {std::int64_t{1}, kMostLanes}) {
      const std::int64_t lines = shape.n * shape.out_h();
      const std::vector<std::pair<ConvChunks, std::int64_t>> cuts{{forward_chunks(shape, launch_lanes), lines},
                                                                  {backward_data_chunks(shape, launch_lanes), shape.n},
                                                                  {backward_weight_chunks(shape, launch_lanes), lines}};
      for (const auto& [cut, units] : cuts) {
        EXPECT_GE(cut.lanes, 1);
        EXPECT_LE(cut.lanes, launch_lanes);
        EXPECT_GE(cut.lanes * cut.units_per_lane, units);
        EXPECT_LT((cut.lanes - 1) * cut.units_per_lane, units) << "a lane without work";
        EXPECT_GE(cut.units_per_chunk, 1);
        EXPECT_LE(cut.units_per_chunk, cut.units_per_lane);
      }
    }
  }
}

TEST(ConvChunksTest, OneLaneFitsTheScratchOfMany) {
  for (const ConvShape& shape : kShapes) {
    const auto bytes = [](const ConvChunks& cut) {
      return static_cast<std::size_t>(cut.lanes * cut.lane_elements) * 4;
    };
    if (is_matrix_product(shape)) {
      EXPECT_EQ(forward_scratch_bytes(shape), 0U);
      EXPECT_EQ(backward_data_scratch_bytes(shape), 0U);
      continue;
    }
    EXPECT_LE(bytes(forward_chunks(shape, 1)), forward_scratch_bytes(shape));
    EXPECT_LE(bytes(backward_data_chunks(shape, 1)), backward_data_scratch_bytes(shape));
    EXPECT_LE(bytes(backward_weight_chunks(shape, 1)), backward_weight_scratch_bytes(shape));
  }
}

TEST(ConvChunksTest, ScratchIsBounded) {
  for (const ConvShape& shape : kShapes) {
    EXPECT_LE(forward_scratch_bytes(shape), std::size_t{40} << 20);
    EXPECT_LE(backward_data_scratch_bytes(shape), std::size_t{40} << 20);
    EXPECT_LE(backward_weight_scratch_bytes(shape), std::size_t{72} << 20);
  }
}

TEST(ConvChunksTest, ManyChunksGiveWhatAPlainLoopGives) {
  const auto backend = host_backend();
  const ConvShape shape{21, 22, 22, 20, 3, 3, 3, 1, 1};
  ASSERT_GT(forward_chunks(shape, kMostLanes).units_per_lane, forward_chunks(shape, kMostLanes).units_per_chunk);
  ASSERT_GT(backward_data_chunks(shape, kMostLanes).units_per_lane,
            backward_data_chunks(shape, kMostLanes).units_per_chunk);
  const auto x = random_values(static_cast<std::size_t>(shape.n * shape.h * shape.w * shape.c), 1);
  const auto w = random_values(static_cast<std::size_t>(shape.k * shape.r * shape.s * shape.c), 2);
  auto y = unwritten(static_cast<std::size_t>(shape.n * shape.out_h() * shape.out_w() * shape.k));
  const auto dy = random_values(y.size(), 3);
  auto dx = unwritten(x.size());
  auto dw = unwritten(w.size());
  GuardedScratch forward(backend->conv_forward_scratch(shape));
  GuardedScratch data(backend->conv_backward_data_scratch(shape));
  GuardedScratch weight(backend->conv_backward_weight_scratch(shape));
  backend->conv_forward(nullptr, shape, x.data(), w.data(), y.data(), forward.data());
  backend->conv_backward_data(nullptr, shape, dy.data(), w.data(), dx.data(), data.data());
  backend->conv_backward_weight(nullptr, shape, x.data(), dy.data(), dw.data(), weight.data());

  std::vector<double> y_sum(y.size());
  std::vector<double> dx_sum(x.size());
  std::vector<double> dw_sum(w.size());
  std::size_t out = 0;
  for (std::int64_t n = 0; n < shape.n; ++n) {
    for (std::int64_t oy = 0; oy < shape.out_h(); ++oy) {
      for (std::int64_t ox = 0; ox < shape.out_w(); ++ox) {
        for (std::int64_t k = 0; k < shape.k; ++k, ++out) {
          for (std::int64_t r = 0; r < shape.r; ++r) {
            for (std::int64_t s = 0; s < shape.s; ++s) {
              const std::int64_t iy = oy + r - shape.pad;
              const std::int64_t ix = ox + s - shape.pad;
              if (iy < 0 || iy >= shape.h || ix < 0 || ix >= shape.w) continue;
              for (std::int64_t c = 0; c < shape.c; ++c) {
                const auto in = static_cast<std::size_t>(((n * shape.h + iy) * shape.w + ix) * shape.c + c);
                const auto at = static_cast<std::size_t>(((k * shape.r + r) * shape.s + s) * shape.c + c);
                y_sum[out] += static_cast<double>(x[in]) * static_cast<double>(w[at]);
                dx_sum[in] += static_cast<double>(dy[out]) * static_cast<double>(w[at]);
                dw_sum[at] += static_cast<double>(dy[out]) * static_cast<double>(x[in]);
              }
            }
          }
        }
      }
    }
  }
  expect_near(y, {y_sum.begin(), y_sum.end()}, 1e-5, "y");
  expect_near(dx, {dx_sum.begin(), dx_sum.end()}, 1e-5, "dx");
  expect_near(dw, {dw_sum.begin(), dw_sum.end()}, 1e-4, "dw");
}

}  // namespace
}  // namespace penstock::trainer
