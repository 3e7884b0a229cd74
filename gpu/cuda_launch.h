// Starts a kernel. There is no form without a stream, and no <<<>>>: so a .cu file is plain C++ and also compiles with
// the host compiler against a stand-in for <cuda_runtime.h>.
#pragma once

#include <string>
#include <utility>

#include <cuda_runtime.h>

#include <penstock/gpu/device_error.h>

namespace penstock::gpu {

/// Blocks of the grid, threads of a block.
struct LaunchShape {
  dim3 grid;
  dim3 block;
};

/// Enqueues `kernel(args...)` on `stream`; does not wait for it. Throws DeviceError when it cannot be started; a
/// failure while it runs shows up at a later synchronisation.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, const LaunchShape& shape, void (*kernel)(Parameters...), Arguments&&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(args)...);
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // or a later, innocent call would fail
  throw DeviceError(std::string("cuda: a kernel cannot be started: ") + cudaGetErrorString(status));
}

}  // namespace penstock::gpu
