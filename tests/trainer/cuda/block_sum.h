// A kernel with a barrier and a shared array, for tests: what the shim makes of them is what a GPU makes of them.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace penstock::trainer::test {

/// sums[block] = the sum of up to kBlockSumThreads values, added in a tree.
inline constexpr unsigned kBlockSumThreads = 128;
void block_sum(cudaStream_t stream, std::int64_t count, const float* values, float* sums);

}  // namespace penstock::trainer::test
