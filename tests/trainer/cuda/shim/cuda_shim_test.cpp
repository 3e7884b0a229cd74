// The shim itself: what it must find out, it finds out.
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/gpu/cuda_launch.h>

#include "support/cuda_shim/cuda_shim.h"
#include "support/cuda_shim/shared_array.h"

namespace penstock::trainer {
namespace {

using cuda_shim::Order;
using gpu::launch;
using gpu::LaunchShape;
using ::testing::HasSubstr;

constexpr unsigned kThreads = 64;

class CudaShimTest : public ::testing::Test {
 protected:
  CudaShimTest() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~CudaShimTest() override {
    cuda_shim::set_order(Order::kAscending);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  void run() { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  /// What the synchronisation complains of.
  std::string complaint() {
    try {
      cudaStreamSynchronize(stream_);
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "none";
  }
  cudaStream_t stream_ = nullptr;
};

__global__ void note_indices(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += static_cast<int>(block * 1000 + thread);
}

TEST_F(CudaShimTest, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> out(2 * 3 * 2 * 4 * 2 * 3, 0);
  launch(stream_, LaunchShape{dim3(2, 3, 2), dim3(4, 2, 3)}, note_indices, out.data());
  run();
  for (int block = 0; block < 12; ++block) {
    for (int thread = 0; thread < 24; ++thread) EXPECT_EQ(out[block * 24 + thread], block * 1000 + thread);
  }
}

TEST_F(CudaShimTest, RunsNothingBeforeTheStreamIsSynchronised) {
  std::vector<int> out(4, 0);
  launch(stream_, LaunchShape{dim3(1), dim3(4)}, note_indices, out.data());
  EXPECT_THAT(out, ::testing::Each(0));
  run();
  EXPECT_THAT(out, ::testing::ElementsAre(0, 1, 2, 3));
}

__global__ void note_order(unsigned* out, unsigned* next) { out[(*next)++] = blockIdx.x * blockDim.x + threadIdx.x; }

TEST_F(CudaShimTest, RunsBlocksAndThreadsInTheChosenOrder) {
  const auto order_of = [&](Order order, std::uint64_t seed) {
    cuda_shim::set_order(order, seed);
    std::vector<unsigned> out(9, 99);
    unsigned next = 0;
    launch(stream_, LaunchShape{dim3(3), dim3(3)}, note_order, out.data(), &next);
    cudaStreamSynchronize(stream_);
    return out;
  };
  EXPECT_THAT(order_of(Order::kAscending, 0), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(order_of(Order::kDescending, 0), ::testing::ElementsAre(8, 7, 6, 5, 4, 3, 2, 1, 0));
  const std::vector<unsigned> shuffled = order_of(Order::kSeeded, 7);
  EXPECT_THAT(shuffled, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(shuffled, ::testing::Not(::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8)));
}

// Each thread reads what its left neighbour wrote; without the barrier the neighbour may not have written yet.
template <bool kWithBarrier>
__global__ void shift_right(const float* in, float* out) {
  PENSTOCK_SHARED_ARRAY(float, tile, kThreads);
  const unsigned i = threadIdx.x;
  tile[i] = in[i];
  if constexpr (kWithBarrier) __syncthreads();
  out[i] = i == 0 ? 0.0F : tile[i - 1];
}

int wrong_values_of_shift(cudaStream_t stream, bool with_barrier, Order order) {
  cuda_shim::set_order(order, 11);
  std::vector<float> in(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) in[i] = static_cast<float>(i + 1);
  std::vector<float> out(kThreads, -1.0F);
  const LaunchShape shape{dim3(1), dim3(kThreads)};
  if (with_barrier) {
    launch(stream, shape, shift_right<true>, in.data(), out.data());
  } else {
    launch(stream, shape, shift_right<false>, in.data(), out.data());
  }
  cudaStreamSynchronize(stream);
  int wrong = 0;
  for (unsigned i = 0; i < kThreads; ++i) wrong += out[i] == static_cast<float>(i) ? 0 : 1;
  return wrong;
}

TEST_F(CudaShimTest, DescendingOrderShowsMissingBarrier) {
  EXPECT_EQ(wrong_values_of_shift(stream_, false, Order::kAscending), 0);
  EXPECT_EQ(wrong_values_of_shift(stream_, false, Order::kDescending), 63);
  EXPECT_GT(wrong_values_of_shift(stream_, false, Order::kSeeded), 10);
}

TEST_F(CudaShimTest, BarrierMakesEveryOrderRight) {
  const std::uint64_t before = cuda_shim::counts().blocks_with_barriers;
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kSeeded}) {
    EXPECT_EQ(wrong_values_of_shift(stream_, true, order), 0);
  }
  EXPECT_EQ(cuda_shim::counts().blocks_with_barriers, before + 3);
}

__global__ void half_waits(bool lower) {
  if ((threadIdx.x < blockDim.x / 2) == lower) __syncthreads();
}

TEST_F(CudaShimTest, RefusesBarrierThatNotAllThreadsReach) {
  for (const bool lower : {true, false}) {
    launch(stream_, LaunchShape{dim3(1), dim3(4)}, half_waits, lower);
    const std::string text = complaint();
    EXPECT_THAT(text, HasSubstr("cuda shim: block (0, 0, 0)"));
    EXPECT_THAT(text, HasSubstr("ended"));
    EXPECT_THAT(text, HasSubstr("barrier of line"));
  }
}

__global__ void two_barriers() {
  if (threadIdx.x == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_F(CudaShimTest, RefusesThreadsThatWaitAtDifferentBarriers) {
  launch(stream_, LaunchShape{dim3(1), dim3(2)}, two_barriers);
  EXPECT_THAT(complaint(), HasSubstr("threads 0 and 1 wait at different barriers"));
}

__global__ void count_unset(int* nans) {
  PENSTOCK_SHARED_ARRAY(float, tile, 8);
  if (std::isnan(tile[threadIdx.x])) nans[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  tile[threadIdx.x] = 0.0F;
}

TEST_F(CudaShimTest, SharedArraysStartAsNanInEveryBlock) {
  std::vector<int> nans(24, 0);
  launch(stream_, LaunchShape{dim3(3), dim3(8)}, count_unset, nans.data());
  run();
  EXPECT_THAT(nans, ::testing::Each(1));
}

__global__ void write_behind_the_end() {
  PENSTOCK_SHARED_ARRAY(float, tile, 8);
  float* volatile escaped = tile;
  escaped[8] = 1.0F;
}

TEST_F(CudaShimTest, FindsWriteOutsideSharedArray) {
  const auto provoke = [&] {
    launch(stream_, LaunchShape{dim3(1), dim3(1)}, write_behind_the_end);
    return complaint();
  };
#if defined(__SANITIZE_ADDRESS__)
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(provoke(), "use-after-poison");
#else
  EXPECT_THAT(provoke(), HasSubstr("shared memory was written outside its arrays"));
#endif
}

__global__ void too_much_shared() {
  PENSTOCK_SHARED_ARRAY(double, tile, 6145);
  tile[0] = 0.0;
}

TEST_F(CudaShimTest, RefusesMoreSharedMemoryThanABlockHas) {
  launch(stream_, LaunchShape{dim3(1), dim3(1)}, too_much_shared);
  EXPECT_THAT(complaint(), HasSubstr("need 49160 bytes; the limit is 49152"));
}

__global__ void throws_at(unsigned thread) {
  __syncthreads();
  if (threadIdx.x == thread) throw std::logic_error("from thread " + std::to_string(thread));
  __syncthreads();
}

TEST_F(CudaShimTest, ErrorOfOneThreadEndsTheLaunchAndUnwindsTheOthers) {
  launch(stream_, LaunchShape{dim3(2), dim3(16)}, throws_at, 5u);
  EXPECT_EQ(complaint(), "from thread 5");
  EXPECT_EQ(complaint(), "none");
}

TEST_F(CudaShimTest, LaunchRefusesWhatADriverRefuses) {
  std::vector<int> out(1, 0);
  const auto text_of = [&](cudaStream_t stream, LaunchShape shape) {
    try {
      launch(stream, shape, note_indices, out.data());
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(text_of(stream_, {dim3(1), dim3(1025)}), HasSubstr("invalid configuration argument"));
  EXPECT_THAT(text_of(stream_, {dim3(1), dim3(32, 32, 2)}), HasSubstr("invalid configuration argument"));
  EXPECT_THAT(text_of(stream_, {dim3(0), dim3(32)}), HasSubstr("invalid configuration argument"));
  EXPECT_THAT(text_of(stream_, {dim3(1, 65536), dim3(32)}), HasSubstr("invalid configuration argument"));
  EXPECT_THAT(text_of(nullptr, {dim3(1), dim3(32)}), HasSubstr("invalid resource handle"));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "the error is cleared when it is reported";
  run();
  EXPECT_EQ(out[0], 0);
}

}  // namespace
}  // namespace penstock::trainer
