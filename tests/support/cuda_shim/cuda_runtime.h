// Stands in for <cuda_runtime.h> when a .cu file is compiled by the host compiler (-x c++ -DPENSTOCK_CUDA_SHIM, with
// this folder first on the include path): kernels then run on the host, block by block, thread by thread, so that their
// bodies, index arithmetic, barriers and bounds are tested without a GPU. What is here is what the project's kernels
// use; its names are CUDA's, its linkage is C++, so that nothing clashes with the real runtime in a linked library.
//
// Launches wait in their stream until it is synchronised, as on a GPU: a kernel argument that points into a host
// function's frame is found out. `__shared__` is left undefined on purpose: shared arrays are declared with
// PENSTOCK_SHARED_ARRAY (shared_array.h), which puts them between red zones.
#pragma once

#ifndef PENSTOCK_CUDA_SHIM
#error "this folder replaces the CUDA headers; only files compiled with PENSTOCK_CUDA_SHIM may see it"
#endif

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_value = 1, unsigned y_value = 1, unsigned z_value = 1)
      : x(x_value), y(y_value), z(z_value) {}
};

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidResourceHandle = 400,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
/// The last error of this thread, which becomes cudaSuccess.
cudaError_t cudaGetLastError();
/// The last error of this thread.
cudaError_t cudaPeekAtLastError();

struct CUstream_st;
using cudaStream_t = CUstream_st*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
/// Only non-blocking streams are known: the library has no others.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
/// Runs what waits in the stream, in order. A broken rule of CUDA that a kernel shows is a std::logic_error.
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
/// What still waits in the stream is run first.
cudaError_t cudaStreamDestroy(cudaStream_t stream);

struct cudaLaunchAttribute {
  int id = 0;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

/// A barrier of the block: every thread must come to this very place, or the launch ends in a std::logic_error.
void __syncthreads(std::source_location where = std::source_location::current());

namespace cuda_shim {
/// Puts a kernel into its stream, after the checks that a driver makes. `thread` is one thread's run.
cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, std::function<void()> thread);
}  // namespace cuda_shim

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Actual&&... arguments) {
  static_assert((!std::is_reference_v<Expected> && ...), "a kernel takes its parameters by value");
  static_assert((std::is_trivially_copyable_v<Expected> && ...), "kernel parameters are copied as bytes");
  static_assert((std::size_t{0} + ... + sizeof(Expected)) <= 4096, "kernel parameters have 4096 bytes");
  std::tuple<Expected...> copies(static_cast<Expected>(std::forward<Actual>(arguments))...);
  return cuda_shim::enqueue_kernel(*config, [kernel, copies] { std::apply(kernel, copies); });
}
