// Matrix products on the host: OpenBLAS, one thread a call, called from our own threads.
//
// It must be a build of OpenBLAS with threads and locks: the serial build keeps its work buffers without locking and
// gives wrong products when several threads call it at once.
#pragma once

#include <cstdint>

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Sets OpenBLAS to one thread a call and to kernels that suit the processor, once in a process, before any other use
/// of it. Throws Error when it is a build without threads.
void prepare_host_gemm();

/// The name of OpenBLAS's kernels in use (`SkylakeX`, `Haswell`), for logs.
const char* host_gemm_kernels();

/// What `prepare_host_gemm` asks: throws Error unless `parallel`, as openblas_get_parallel() gives it, says threads.
void require_threaded_openblas(int parallel);

/// Row-major C[m, n] = alpha * op(A) * op(B) + beta * C on the calling thread. C is not read when beta is 0; m or n of
/// 0 is nothing to do, k of 0 scales C. Safe from many threads; the result depends on the arguments alone.
void host_gemm(const GemmSpec& spec, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
               float beta, float* c, std::int64_t ldc);

}  // namespace penstock::trainer
