#include "trainer/cuda/block_sum.h"

#include <penstock/gpu/cuda_launch.h>

#include "support/cuda_shim/shared_array.h"

namespace penstock::trainer::test {

__global__ void block_sum_kernel(std::int64_t count, const float* values, float* sums) {
  PENSTOCK_SHARED_ARRAY(float, part, kBlockSumThreads);
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockSumThreads + threadIdx.x;
  part[threadIdx.x] = i < count ? values[i] : 0.0F;
  __syncthreads();
  for (unsigned half = kBlockSumThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

void block_sum(cudaStream_t stream, std::int64_t count, const float* values, float* sums) {
  const auto blocks = static_cast<unsigned>((count + kBlockSumThreads - 1) / kBlockSumThreads);
  gpu::launch(stream, gpu::LaunchShape{dim3(blocks), dim3(kBlockSumThreads)}, block_sum_kernel, count, values, sums);
}

}  // namespace penstock::trainer::test
