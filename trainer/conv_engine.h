// The seam for convolution: the three passes with the scratch each needs. The engine of both devices is im2col + gemm
// (gemm_conv_engine.h); a library with convolutions of its own is another engine.
#pragma once

#include <cstddef>

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Meaning of shapes and pointers as in Backend. Scratch bytes depend on the shape alone. One call at a time.
class ConvEngine {
 public:
  virtual ~ConvEngine() = default;

  virtual std::size_t forward_scratch(const ConvShape& shape) const = 0;
  virtual std::size_t backward_data_scratch(const ConvShape& shape) const = 0;
  virtual std::size_t backward_weight_scratch(const ConvShape& shape) const = 0;

  virtual void forward(NativeStream stream, const ConvShape& shape, const float* x, const float* w, float* y,
                       std::byte* scratch) = 0;
  virtual void backward_data(NativeStream stream, const ConvShape& shape, const float* dy, const float* w, float* dx,
                             std::byte* scratch) = 0;
  virtual void backward_weight(NativeStream stream, const ConvShape& shape, const float* x, const float* dy, float* dw,
                               std::byte* scratch) = 0;
};

}  // namespace penstock::trainer
