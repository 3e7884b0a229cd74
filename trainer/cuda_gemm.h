// Matrix products on a GPU: the project's row-major gemm as calls of cuBLASLt, which thinks in columns.
//
// A row-major C[m, n] is a column-major [n, m] at the same address, so C = op(A) op(B) becomes C' = op(B)' op(A)': the
// operands change places and nothing is moved. No call has a workspace, so that nothing is allocated outside the plan;
// and no algorithm that splits the inner dimension is taken, so that every sum has one order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include <cublasLt.h>

#include <penstock/pipeline/mutex.h>
#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Products of f32 matrices with f32 sums (TF32 is not used). The library's handle belongs to the device that is
/// current at the first call; the algorithm for a product is chosen at its first call and kept, so call each once
/// before capture. May be called from many threads.
class CudaGemm {
 public:
  CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;
  ~CudaGemm();

  /// Row-major C[m, n] = alpha * op(A) * op(B) + beta * C; m, n and k at least 1; leading dimensions in elements. C is
  /// not read when beta is 0. Throws gpu::DeviceError.
  void multiply(cudaStream_t stream, const GemmSpec& spec, float alpha, const float* a, std::int64_t lda,
                const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
  /// Products for which an algorithm has been chosen so far.
  std::size_t plan_count() const;

 private:
  struct Key;
  struct Plan;
  const Plan& plan_for(const Key& key);

  mutable Mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;                  // made under mutex_, then never changed
  std::list<Plan> plans_ PENSTOCK_GUARDED_BY(mutex_);  // entries stay where they are
};

}  // namespace penstock::trainer
