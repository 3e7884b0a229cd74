// cuBLASLt on the host: matrix products as the descriptors say, in column-major terms unless a layout says otherwise.
#include "cublasLt.h"

#include <cstring>

#include "cuda_shim.h"

struct cublasLtContext {};

namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

template <class T>
cublasStatus_t assign(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

bool valid(const Layout& layout) {
  const std::uint64_t shortest = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.columns;
  return layout.rows > 0 && layout.columns > 0 && layout.leading >= static_cast<std::int64_t>(shortest);
}

std::size_t offset(const Layout& layout, std::uint64_t row, std::uint64_t column) {
  const auto leading = static_cast<std::uint64_t>(layout.leading);
  return layout.order == CUBLASLT_ORDER_COL ? column * leading + row : row * leading + column;
}

struct Shape {
  std::uint64_t rows;
  std::uint64_t columns;
};

Shape shape(const Layout& layout, std::int32_t operation) {
  return operation == CUBLAS_OP_N ? Shape{layout.rows, layout.columns} : Shape{layout.columns, layout.rows};
}

float element(const float* data, const Layout& layout, std::int32_t operation, std::uint64_t row,
              std::uint64_t column) {
  return operation == CUBLAS_OP_N ? data[offset(layout, row, column)] : data[offset(layout, column, row)];
}

bool fits(const cublasLtMatmulDescOpaque_t& operation, const Layout& a, const Layout& b, const Layout& c,
          const Layout& d) {
  if (!valid(a) || !valid(b) || !valid(c) || !valid(d)) return false;
  const Shape left = shape(a, operation.transpose_a);
  const Shape right = shape(b, operation.transpose_b);
  return left.columns == right.rows && left.rows == d.rows && right.columns == d.columns && c.rows == d.rows &&
         c.columns == d.columns;
}

bool aligned(const void* pointer, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

void multiply(const cublasLtMatmulDescOpaque_t& operation, float alpha, const float* a, const Layout& a_layout,
              const float* b, const Layout& b_layout, float beta, const float* c, const Layout& c_layout, float* d,
              const Layout& d_layout) {
  const std::uint64_t inner = shape(a_layout, operation.transpose_a).columns;
  for (std::uint64_t column = 0; column < d_layout.columns; ++column) {
    for (std::uint64_t row = 0; row < d_layout.rows; ++row) {
      float sum = 0;
      for (std::uint64_t i = 0; i < inner; ++i) {
        sum += element(a, a_layout, operation.transpose_a, row, i) *
               element(b, b_layout, operation.transpose_b, i, column);
      }
      const float old = beta == 0 ? 0 : beta * c[offset(c_layout, row, column)];
      d[offset(d_layout, row, column)] = alpha * sum + old;
    }
  }
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *operation = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return assign(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? operation->transpose_a : operation->transpose_b, value,
                bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  if (type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *layout = new Layout{rows, columns, leading, CUBLASLT_ORDER_COL};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  if (attribute != CUBLASLT_MATRIX_LAYOUT_ORDER) return CUBLAS_STATUS_INVALID_VALUE;
  return assign(layout->order, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(preference->max_workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(preference->reduction_schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return assign(preference->alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return assign(preference->alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return assign(preference->alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(preference->alignment[3], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  cuda_shim::count_heuristic();
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted < 1 || !fits(*operation, *a, *b, *c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  results[0].algo = {*operation, {*a, *b, *c, *d}, preference->alignment};
  results[0].workspaceSize = 0;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algorithm == nullptr || !fits(*operation, *a_layout, *b_layout, *c_layout, *d_layout)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::array<Layout, 4> layouts{*a_layout, *b_layout, *c_layout, *d_layout};
  const std::array<std::uint32_t, 4>& promised = algorithm->alignment;
  const bool usable = algorithm->operation == *operation && algorithm->layouts == layouts && aligned(a, promised[0]) &&
                      aligned(b, promised[1]) && aligned(c, promised[2]) && aligned(d, promised[3]) &&
                      (workspace != nullptr || workspace_bytes == 0);
  if (!usable) return CUBLAS_STATUS_INVALID_VALUE;
  float alpha_value = 0;
  float beta_value = 0;
  std::memcpy(&alpha_value, alpha, sizeof alpha_value);
  std::memcpy(&beta_value, beta, sizeof beta_value);
  const cudaError_t enqueued = cuda_shim::enqueue(stream, [=, what = *operation] {
    multiply(what, alpha_value, static_cast<const float*>(a), layouts[0], static_cast<const float*>(b), layouts[1],
             beta_value, static_cast<const float*>(c), layouts[2], static_cast<float*>(d), layouts[3]);
    cuda_shim::count_matmul();
  });
  return enqueued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
