// Row-major products by cuBLASLt; one plan a product.
#include <penstock/trainer/cuda_gemm.h>

#include <algorithm>
#include <memory>
#include <source_location>
#include <string>

#include <penstock/gpu/device_error.h>

namespace penstock::trainer {
namespace {

std::string name_of(const GemmSpec& spec) {
  const auto operand = [](const char* name, bool transposed) { return std::string(name) + (transposed ? "^T" : ""); };
  return "the product " + operand("A", spec.transpose_a) + " " + operand("B", spec.transpose_b) +
         " with m = " + std::to_string(spec.m) + ", n = " + std::to_string(spec.n) + ", k = " + std::to_string(spec.k);
}

void check(cublasStatus_t status, const char* call, const GemmSpec& spec,
           std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw gpu::DeviceError(std::string(call) + " failed for " + name_of(spec) + ": " + cublasLtGetStatusString(status) +
                         " (" + where.file_name() + ":" + std::to_string(where.line()) + ")");
}

/// The alignment that an algorithm may count on: cuBLASLt assumes 256 bytes unless told less.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 256u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

}  // namespace

struct CudaGemm::Key {
  GemmSpec spec;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::uint32_t align_a = 0, align_b = 0, align_c = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

struct CudaGemm::Plan {
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t layout : {left, right, result}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
  Key key;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr;    // B, as columns
  cublasLtMatrixLayout_t right = nullptr;   // A, as columns
  cublasLtMatrixLayout_t result = nullptr;  // C, as columns
  cublasLtMatmulAlgo_t algorithm{};
};

CudaGemm::CudaGemm() = default;

CudaGemm::~CudaGemm() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

std::size_t CudaGemm::plan_count() const {
  const MutexLock lock(mutex_);
  return plans_.size();
}

const CudaGemm::Plan& CudaGemm::plan_for(const Key& key) {
  const MutexLock lock(mutex_);
  const auto known = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.key == key; });
  if (known != plans_.end()) return *known;

  const GemmSpec& spec = key.spec;
  if (handle_ == nullptr) check(cublasLtCreate(&handle_), "cublasLtCreate", spec);
  std::list<Plan> made(1);
  Plan& plan = made.front();
  plan.key = key;

  check(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate", spec);
  const std::int32_t left_operation = spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const std::int32_t right_operation = spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, &left_operation,
                                       sizeof left_operation),
        "cublasLtMatmulDescSetAttribute", spec);
  check(cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, &right_operation,
                                       sizeof right_operation),
        "cublasLtMatmulDescSetAttribute", spec);

  // The row-major [rows, columns] is the column-major [columns, rows].
  const auto layout = [&](cublasLtMatrixLayout_t& to, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
    check(cublasLtMatrixLayoutCreate(&to, CUDA_R_32F, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), leading),
          "cublasLtMatrixLayoutCreate", spec);
  };
  layout(plan.left, spec.transpose_b ? spec.n : spec.k, spec.transpose_b ? spec.k : spec.n, key.ldb);
  layout(plan.right, spec.transpose_a ? spec.k : spec.m, spec.transpose_a ? spec.m : spec.k, key.lda);
  layout(plan.result, spec.m, spec.n, key.ldc);

  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", spec);
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, cublasStatus_t (*)(cublasLtMatmulPreference_t)> owner(
      preference, &cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", spec);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_c);

  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.left, plan.right, plan.result, plan.result,
                                       preference, 1, &best, &found),
        "cublasLtMatmulAlgoGetHeuristic", spec);
  if (found == 0) {
    throw gpu::DeviceError("cublasLtMatmulAlgoGetHeuristic found no algorithm without a workspace for " +
                           name_of(spec));
  }
  check(best.state, "cublasLtMatmulAlgoGetHeuristic", spec);
  plan.algorithm = best.algo;
  plans_.splice(plans_.end(), made);
  return plans_.back();
}

void CudaGemm::multiply(cudaStream_t stream, const GemmSpec& spec, float alpha, const float* a, std::int64_t lda,
                        const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  const Plan& plan = plan_for({spec, lda, ldb, ldc, alignment_of(a), alignment_of(b), alignment_of(c)});
  check(cublasLtMatmul(handle_, plan.operation, &alpha, b, plan.left, a, plan.right, &beta, c, plan.result, c,
                       plan.result, &plan.algorithm, nullptr, 0, stream),
        "cublasLtMatmul", spec);
}

}  // namespace penstock::trainer
