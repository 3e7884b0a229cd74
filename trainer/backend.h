// The operations a step is made of, as functions on device memory. One source for all devices: every operation is
// written once over a launcher (backend_of.h); HostBackend and CudaBackend differ in how they launch, and in gemm.
//
// Letters: N batch rows, H W height and width, C channels in, K channels out, R S filter, M = rows of a matrix.
// Layout NHWC; convolution weights [K, R, S, C]; linear weights [out, in]. All values f32 unless said. All pointers are
// device memory of a planned arena. Calls are made inside a Work body (gpu/device.h) with its native stream; they
// enqueue or run, allocate nothing, and are deterministic: results depend on shapes and values alone, never on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/gpu/device.h>
#include <penstock/pipeline/runtime.h>

namespace penstock::trainer {

using gpu::NativeStream;

/// Row-major C[m, n] = alpha * op(A) * op(B) + beta * C, with leading dimensions in elements.
struct GemmSpec {
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k]
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  friend bool operator==(const GemmSpec&, const GemmSpec&) = default;
};

/// 2-D convolution, equal stride and padding on all sides.
struct ConvShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  std::int64_t k = 0, r = 3, s = 3;
  std::int64_t stride = 1, pad = 1;
  std::int64_t out_h() const noexcept { return (h + 2 * pad - r) / stride + 1; }
  std::int64_t out_w() const noexcept { return (w + 2 * pad - s) / stride + 1; }
};

/// Max pooling with window = stride = `size`, no padding; rows and columns that fill no window are left out.
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  std::int64_t size = 2;
};

/// What an epoch's metrics are summed into, in device memory; zeroed by the caller at an epoch's start.
struct MetricSums {
  double loss = 0;         ///< sum over samples of the cross-entropy that the phase minimises or reports
  std::int64_t count = 0;  ///< samples
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;        ///< label among the five largest logits (ties: the lower class first)
  std::int64_t not_finite = 0;  ///< samples whose loss was not finite
};

/// Scalars of one training step; copied by value when the step begins, read by kernels from device memory.
struct StepScalars {
  float learning_rate = 0;
  std::int32_t valid = 0;  ///< rows that hold samples
};

/// Per channel x -> (x / 255 - mean) * inverse_deviation; up to 4 channels, passed by value.
struct Normalisation {
  float mean[4] = {0, 0, 0, 0};
  float inverse_deviation[4] = {1, 1, 1, 1};
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Scratch bytes of each operation that needs some: functions of the shape alone, the same on every device.
  virtual std::size_t conv_forward_scratch(const ConvShape& shape) const = 0;
  virtual std::size_t conv_backward_data_scratch(const ConvShape& shape) const = 0;
  virtual std::size_t conv_backward_weight_scratch(const ConvShape& shape) const = 0;
  /// Of linear_backward_weight; the other two linear operations need none and are given null.
  virtual std::size_t linear_scratch(std::int64_t n, std::int64_t in, std::int64_t out) const = 0;
  virtual std::size_t batch_norm_scratch(std::int64_t rows, std::int64_t c) const = 0;
  virtual std::size_t softmax_cross_entropy_scratch(std::int64_t n, std::int64_t classes) const = 0;

  virtual void set_scalars(NativeStream stream, StepScalars* to, StepScalars value) = 0;
  /// u8 [n, pixels, c] -> f32; rows from `valid` on become 0.
  virtual void cast_normalise(NativeStream stream, const std::uint8_t* in, float* out, std::int64_t n,
                              std::int64_t pixels, std::int64_t c, const Normalisation& normalisation,
                              std::int64_t valid) = 0;
  /// i64 labels -> i32; rows from `valid` on become -1, which every operation below passes over.
  virtual void copy_labels(NativeStream stream, const std::int64_t* in, std::int32_t* out, std::int64_t n,
                           std::int64_t valid) = 0;

  virtual void conv_forward(NativeStream stream, const ConvShape& shape, const float* x, const float* w, float* y,
                            std::byte* scratch) = 0;
  virtual void conv_backward_data(NativeStream stream, const ConvShape& shape, const float* dy, const float* w,
                                  float* dx, std::byte* scratch) = 0;
  virtual void conv_backward_weight(NativeStream stream, const ConvShape& shape, const float* x, const float* dy,
                                    float* dw, std::byte* scratch) = 0;

  /// y[n, out] = x[n, in] w[out, in]^T + bias[out]; bias may be null.
  virtual void linear_forward(NativeStream stream, std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                              const float* w, const float* bias, float* y, std::byte* scratch) = 0;
  virtual void linear_backward_data(NativeStream stream, std::int64_t n, std::int64_t in, std::int64_t out,
                                    const float* dy, const float* w, float* dx, std::byte* scratch) = 0;
  /// dbias may be null.
  virtual void linear_backward_weight(NativeStream stream, std::int64_t n, std::int64_t in, std::int64_t out,
                                      const float* x, const float* dy, float* dw, float* dbias, std::byte* scratch) = 0;

  /// Over `rows` = N*H*W values a channel. Saves the batch's mean and 1/sqrt(var + eps) [c]; running statistics become
  /// (1 - momentum) * old + momentum * batch (variance with rows - 1). rows >= 2.
  virtual void batch_norm_forward_train(NativeStream stream, std::int64_t rows, std::int64_t c, const float* x,
                                        const float* gamma, const float* beta, float* y, float* saved_mean,
                                        float* saved_inverse_deviation, float* running_mean, float* running_variance,
                                        float momentum, float eps, std::byte* scratch) = 0;
  virtual void batch_norm_forward_eval(NativeStream stream, std::int64_t rows, std::int64_t c, const float* x,
                                       const float* gamma, const float* beta, float* y, const float* running_mean,
                                       const float* running_variance, float eps) = 0;
  /// dx may be dy.
  virtual void batch_norm_backward(NativeStream stream, std::int64_t rows, std::int64_t c, const float* x,
                                   const float* gamma, const float* saved_mean, const float* saved_inverse_deviation,
                                   const float* dy, float* dx, float* dgamma, float* dbeta, std::byte* scratch) = 0;

  /// y may be x.
  virtual void relu_forward(NativeStream stream, std::int64_t count, const float* x, float* y) = 0;
  /// dx = dy where y > 0, else 0; dx may be dy.
  virtual void relu_backward(NativeStream stream, std::int64_t count, const float* y, const float* dy, float* dx) = 0;

  /// index: one byte an output, the position in the window; null in evaluation. The first of equal values wins.
  virtual void max_pool_forward(NativeStream stream, const PoolShape& shape, const float* x, float* y,
                                std::uint8_t* index) = 0;
  virtual void max_pool_backward(NativeStream stream, const PoolShape& shape, const float* dy,
                                 const std::uint8_t* index, float* dx) = 0;
  /// [n, pixels, c] -> [n, c]; index: i32 an output; null in evaluation.
  virtual void global_max_pool_forward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                       const float* x, float* y, std::int32_t* index) = 0;
  virtual void global_max_pool_backward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                        const float* dy, const std::int32_t* index, float* dx) = 0;
  virtual void global_average_pool_forward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                           const float* x, float* y) = 0;
  virtual void global_average_pool_backward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                            const float* dy, float* dx) = 0;

  /// y = a + b; y may be a or b.
  virtual void add(NativeStream stream, std::int64_t count, const float* a, const float* b, float* y) = 0;
  /// y = factor * x; y may be x.
  virtual void scale(NativeStream stream, std::int64_t count, float factor, const float* x, float* y) = 0;
  virtual void copy(NativeStream stream, std::int64_t count, const float* x, float* y) = 0;

  /// Cross-entropy of log-softmax with target (1 - smoothing) * onehot + smoothing / classes. Adds to *sums over rows
  /// with label >= 0, in row order. dlogits (null in evaluation; may be logits) = (softmax - target) / valid rows, 0 in
  /// rows without label.
  virtual void softmax_cross_entropy(NativeStream stream, std::int64_t n, std::int64_t classes, const float* logits,
                                     const std::int32_t* labels, float smoothing, float* dlogits, MetricSums* sums,
                                     std::byte* scratch) = 0;

  /// SGD with Nesterov momentum as PyTorch has it: g += decay * w; m = momentum * m + g; w -= lr * (g + momentum * m).
  virtual void sgd_update(NativeStream stream, std::int64_t count, float* w, const float* g, float* m,
                          const StepScalars* scalars, float momentum, float weight_decay) = 0;
};

/// The back end for a device: operations run in `runtime`'s high-priority loops, or on the GPU.
std::unique_ptr<Backend> make_backend(const gpu::Device& device, const Runtime& runtime);

}  // namespace penstock::trainer
