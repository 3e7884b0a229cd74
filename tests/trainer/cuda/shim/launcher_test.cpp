// The launcher's loops: each element once, whatever the grid.
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/trainer/cuda_launcher.cuh>

#include "support/cuda_shim/cuda_shim.h"

namespace penstock::trainer {
namespace {

struct CountCalls {
  int* calls;
  std::int64_t width;
  void operator()(std::int64_t i) const { ++calls[i]; }
  void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) calls[row * width + i] += end - begin == 1 ? 1 : 100;
  }
};

class CudaLauncherTest : public ::testing::Test {
 protected:
  CudaLauncherTest() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~CudaLauncherTest() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  void run() { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaLauncherTest, ForEachCallsEveryIndexOnce) {
  for (const std::int64_t n : {1, 255, 256, 257, 1000}) {
    std::vector<int> calls(static_cast<std::size_t>(n), 0);
    CudaLaunch().for_each(stream_, n, CountCalls{calls.data(), 0});
    run();
    EXPECT_THAT(calls, ::testing::Each(1)) << n;
  }
}

TEST_F(CudaLauncherTest, ForEachRowCallsEveryElementOnce) {
  for (const std::int64_t width : {1, 2, 3, 31, 32, 33, 255, 256, 257, 600}) {
    for (const std::int64_t rows : {1, 7, 8, 9, 300}) {
      std::vector<int> calls(static_cast<std::size_t>(rows * width), 0);
      CudaLaunch().for_each_row(stream_, rows, width, CountCalls{calls.data(), width});
      run();
      EXPECT_THAT(calls, ::testing::Each(1)) << rows << " x " << width;
    }
  }
}

TEST_F(CudaLauncherTest, GridsSmallerThanTheLoopStrideOverTheRest) {
  std::vector<int> calls(1000, 0);
  gpu::launch(stream_, gpu::LaunchShape{dim3(3), dim3(32)}, for_each_kernel<CountCalls>, std::int64_t{1000},
              CountCalls{calls.data(), 0});
  run();
  EXPECT_THAT(calls, ::testing::Each(1));
  calls.assign(50 * 20, 0);
  gpu::launch(stream_, gpu::LaunchShape{dim3(2, 3), dim3(4, 2)}, for_each_row_kernel<CountCalls>, std::int64_t{50},
              std::int64_t{20}, CountCalls{calls.data(), 20});
  run();
  EXPECT_THAT(calls, ::testing::Each(1));
}

TEST_F(CudaLauncherTest, NothingIsLaunchedForNothing) {
  const cuda_shim::Counts before = cuda_shim::counts();
  const CudaLaunch launch;
  const CountCalls count{nullptr, 5};
  launch.for_each(stream_, 0, count);
  launch.for_each_row(stream_, 0, 5, count);
  launch.for_each_row(stream_, 5, 0, count);
  launch.gemm(stream_, {false, false, 0, 5, 5}, 1, nullptr, 5, nullptr, 5, 0, nullptr, 5);
  launch.gemm(stream_, {false, false, 5, 0, 5}, 1, nullptr, 5, nullptr, 5, 0, nullptr, 5);
  run();
  EXPECT_EQ(cuda_shim::counts().launches, before.launches);
  EXPECT_EQ(cuda_shim::counts().heuristics, before.heuristics);
}

TEST_F(CudaLauncherTest, ProductWithoutInnerDimensionScalesTheResult) {
  std::vector<float> c{1, 2, 9, 3, 4, 9};
  const CudaLaunch launch;
  launch.gemm(stream_, {false, false, 2, 2, 0}, 1, nullptr, 1, nullptr, 1, 0.5F, c.data(), 3);
  run();
  EXPECT_THAT(c, ::testing::ElementsAre(0.5F, 1, 9, 1.5F, 2, 9));
  c[0] = std::numeric_limits<float>::quiet_NaN();
  launch.gemm(stream_, {false, false, 2, 2, 0}, 1, nullptr, 1, nullptr, 1, 0, c.data(), 3);
  run();
  EXPECT_THAT(c, ::testing::ElementsAre(0, 0, 9, 0, 0, 9));
}

TEST_F(CudaLauncherTest, LanesComeInOrder) {
  std::vector<std::int64_t> seen;
  CudaLaunch().lanes(stream_, 4, [&](const CudaLaunch&, std::int64_t index) { seen.push_back(index); });
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace penstock::trainer
