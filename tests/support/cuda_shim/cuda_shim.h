// How the kernels of the shim are run: the order of blocks and threads, and what has been run so far.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_runtime.h"

namespace cuda_shim {

/// In which order blocks run, and the threads of a block between two barriers. Correct kernels do not depend on it.
enum class Order : std::uint8_t {
  kAscending,   ///< 0, 1, 2, ...: hides most missing barriers
  kDescending,  ///< the last first
  kSeeded,      ///< shuffled anew at every barrier
};

/// For the launches that are run from now on, by all threads of the process.
void set_order(Order order, std::uint64_t seed = 0);

/// Kernels, and blocks of kernels whose threads met at a barrier, that have been run so far.
struct Counts {
  std::uint64_t launches = 0;
  std::uint64_t blocks_with_barriers = 0;
  std::uint64_t matmuls = 0;
  std::uint64_t heuristics = 0;  ///< calls of cublasLtMatmulAlgoGetHeuristic
};
Counts counts();

/// Something to run when the stream is synchronised; cublasLtMatmul uses it as kernels do.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> operation);
void count_matmul();
void count_heuristic();

}  // namespace cuda_shim
