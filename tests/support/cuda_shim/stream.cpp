// Streams as queues that run when they are synchronised, and the launch of a kernel's blocks.
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "block.h"
#include "cuda_shim.h"

struct CUstream_st {
  std::mutex mutex;
  std::deque<std::function<void()>> operations;  // guarded by mutex
};

namespace cuda_shim {
namespace {

std::atomic<Order> chosen_order{Order::kAscending};
std::atomic<std::uint64_t> chosen_seed{0};
std::atomic<std::uint64_t> launches{0};
std::atomic<std::uint64_t> blocks_with_barriers{0};
std::atomic<std::uint64_t> matmuls{0};
std::atomic<std::uint64_t> heuristics{0};
constinit thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

void run_kernel(dim3 grid, dim3 block, const std::function<void()>& thread) {
  const Order order = chosen_order;
  std::mt19937_64 random(chosen_seed + launches);
  Stacks stacks;
  gridDim = grid;
  blockDim = block;
  for (const std::uint32_t index : arrange(grid.x * grid.y * grid.z, order, random)) {
    blockIdx = {index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y};
    Block running(thread, block, order, random, stacks);
    running.run();
    if (running.had_barrier()) ++blocks_with_barriers;
  }
  ++launches;
}

bool within(dim3 value, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  return value.x >= 1 && value.y >= 1 && value.z >= 1 && value.x <= x && value.y <= y && value.z <= z;
}

}  // namespace

void set_order(Order order, std::uint64_t seed) {
  chosen_order = order;
  chosen_seed = seed;
}

Counts counts() { return {launches, blocks_with_barriers, matmuls, heuristics}; }
void count_matmul() { ++matmuls; }
void count_heuristic() { ++heuristics; }

cudaError_t enqueue(cudaStream_t stream, std::function<void()> operation) {
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);  // nothing of ours uses the default stream
  const std::lock_guard lock(stream->mutex);
  stream->operations.push_back(std::move(operation));
  return cudaSuccess;
}

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const bool legal = within(grid, 2147483647, 65535, 65535) && within(block, 1024, 1024, 64) &&
                     block.x * block.y * block.z <= 1024 && config.dynamicSmemBytes == 0 && config.numAttrs == 0;
  if (!legal) return failed(cudaErrorInvalidConfiguration);
  return enqueue(config.stream, [grid, block, thread = std::move(thread)] { run_kernel(grid, block, thread); });
}

}  // namespace cuda_shim

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cuda_shim::failed(cudaErrorInvalidValue);
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return cuda_shim::failed(cudaErrorInvalidResourceHandle);
  for (;;) {
    std::function<void()> operation;
    {
      const std::lock_guard lock(stream->mutex);
      if (stream->operations.empty()) return cudaSuccess;
      operation = std::move(stream->operations.front());
      stream->operations.pop_front();
    }
    operation();
  }
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t result = cudaStreamSynchronize(stream);
  if (result == cudaSuccess) delete stream;
  return result;
}

cudaError_t cudaGetLastError() { return std::exchange(cuda_shim::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return cuda_shim::last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
  }
  return "unrecognized error code";
}
