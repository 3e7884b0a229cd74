// How the operations start on a GPU: the launcher of BackendOf whose loops are kernels and whose products are
// cuBLASLt's.
#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime.h>

#include <penstock/gpu/cuda_launch.h>
#include <penstock/trainer/backend.h>
#include <penstock/trainer/cuda_gemm.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer {

/// Threads of a block, and blocks of a grid dimension at most: loops stride over the rest, and their results do not
/// depend on these numbers.
inline constexpr unsigned kBlockThreads = 256;
inline constexpr std::int64_t kMostBlocks = 32768;

/// f(i) for i in [0, n).
template <class F>
__global__ void __launch_bounds__(kBlockThreads) for_each_kernel(std::int64_t n, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) f(i);
}

/// f(row, i, i + 1) for every element of [rows, width]. Neighbouring threads have neighbouring i; the threads of a
/// block that a narrow row leaves over take further rows.
template <class F>
__global__ void __launch_bounds__(kBlockThreads) for_each_row_kernel(std::int64_t rows, std::int64_t width, F f) {
  const std::int64_t row_stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
       row += row_stride) {
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < width; i += stride) {
      f(row, i, i + 1);
    }
  }
}

/// C[row, i] = beta * C[row, i], and 0 when beta is 0, whatever C was: a product without an inner dimension.
struct ScaleMatrix {
  float* c;
  std::int64_t ldc;
  float beta;
  PENSTOCK_HD void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) c[row * ldc + i] = beta == 0 ? 0 : beta * c[row * ldc + i];
  }
};

/// A launcher as backend_of.h describes it. Work in a stream is in order anyway, so one lane is enough.
class CudaLaunch {
 public:
  static constexpr std::int64_t kLanes = 1;

  template <class F>
  void for_each(NativeStream stream, std::int64_t n, const F& f) const {
    if (n <= 0) return;
    gpu::launch(static_cast<cudaStream_t>(stream),
                gpu::LaunchShape{dim3(blocks_for(n, kBlockThreads)), dim3(kBlockThreads)}, for_each_kernel<F>, n, f);
  }

  template <class F>
  void for_each_row(NativeStream stream, std::int64_t rows, std::int64_t width, const F& f) const {
    if (rows <= 0 || width <= 0) return;
    unsigned across = 1;
    while (across < width && across < kBlockThreads) across *= 2;
    const unsigned down = kBlockThreads / across;
    gpu::launch(static_cast<cudaStream_t>(stream),
                gpu::LaunchShape{dim3(blocks_for(width, across), blocks_for(rows, down)), dim3(across, down)},
                for_each_row_kernel<F>, rows, width, f);
  }

  void gemm(NativeStream stream, const GemmSpec& spec, float alpha, const float* a, std::int64_t lda, const float* b,
            std::int64_t ldb, float beta, float* c, std::int64_t ldc) const {
    if (spec.m <= 0 || spec.n <= 0) return;
    if (spec.k <= 0) return for_each_row(stream, spec.m, spec.n, ScaleMatrix{c, ldc, beta});
    gemm_->multiply(static_cast<cudaStream_t>(stream), spec, alpha, a, lda, b, ldb, beta, c, ldc);
  }

  template <class F>
  void lanes(NativeStream /*stream*/, std::int64_t count, const F& f) const {
    for (std::int64_t index = 0; index < count; ++index) f(*this, index);
  }

 private:
  static unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
    const std::int64_t blocks = (count + per_block - 1) / per_block;
    return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
  }

  std::unique_ptr<CudaGemm> gemm_ = std::make_unique<CudaGemm>();
};

}  // namespace penstock::trainer
