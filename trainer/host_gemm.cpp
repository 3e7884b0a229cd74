// OpenBLAS keeps its state per process, so it is set up once and for all users of the process.
#include <penstock/trainer/host_gemm.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include <cblas.h>

#include <penstock/pipeline/error.h>

// OpenBLAS's own start-up, which a build with kernels for many processors exports; absent from other builds.
extern "C" {
[[gnu::weak]] void openblas_read_env();
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] void gotoblas_dynamic_init();
}

namespace penstock::trainer {

namespace {

/// What OPENBLAS_CORETYPE should be on this processor, or null to leave OpenBLAS its choice.
const char* kernels_for_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

/// OpenBLAS goes by model numbers and takes its slowest kernels (Prescott, SSE3) on a processor newer than itself, a
/// quarter of the speed or less. Then it is started again with the kernels that the processor can run. Who has set
/// OPENBLAS_CORETYPE has chosen.
void choose_kernels() {
  if (openblas_read_env == nullptr || gotoblas_dynamic_quit == nullptr || gotoblas_dynamic_init == nullptr) return;
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr || std::string_view(openblas_get_corename()) != "Prescott") return;
  const char* const kernels = kernels_for_processor();
  if (kernels == nullptr) return;
  setenv("OPENBLAS_CORETYPE", kernels, 1);
  gotoblas_dynamic_quit();
  openblas_read_env();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
}

}  // namespace

void require_threaded_openblas(int parallel) {
  if (parallel != 0) return;
  throw Error(
      "host back end: this OpenBLAS is its serial build, which gives wrong products when several threads call it; "
      "use the pthread build (Debian: libopenblas0-pthread)");
}

void prepare_host_gemm() {
  static std::once_flag once;
  std::call_once(once, [] {
    require_threaded_openblas(openblas_get_parallel());
    choose_kernels();
    openblas_set_num_threads(1);
  });
}

const char* host_gemm_kernels() { return openblas_get_corename(); }

void host_gemm(const GemmSpec& spec, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
               float beta, float* c, std::int64_t ldc) {
  if (spec.m < 1 || spec.n < 1) return;
  using Int = blasint;
  cblas_sgemm(CblasRowMajor, spec.transpose_a ? CblasTrans : CblasNoTrans, spec.transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<Int>(spec.m), static_cast<Int>(spec.n), static_cast<Int>(spec.k), alpha, a,
              static_cast<Int>(lda), b, static_cast<Int>(ldb), beta, c, static_cast<Int>(ldc));
}

}  // namespace penstock::trainer
