// Convolution as im2col + gemm, and col2im for the data gradient, over any launcher. A 1x1 convolution without stride
// is one product without columns. The weight gradient has a partial sum per lane; they are added in lane order.
#pragma once

#include <penstock/trainer/conv_chunks.h>
#include <penstock/trainer/conv_engine.h>
#include <penstock/trainer/operations/arithmetic.h>
#include <penstock/trainer/operations/im2col.h>

namespace penstock::trainer {

/// `Launch` as described in backend_of.h.
template <class Launch>
class GemmConvEngine final : public ConvEngine {
 public:
  /// `launch` outlives the engine.
  explicit GemmConvEngine(Launch& launch) : launch_(launch) {}

  std::size_t forward_scratch(const ConvShape& shape) const override { return forward_scratch_bytes(shape); }
  std::size_t backward_data_scratch(const ConvShape& shape) const override {
    return backward_data_scratch_bytes(shape);
  }
  std::size_t backward_weight_scratch(const ConvShape& shape) const override {
    return backward_weight_scratch_bytes(shape);
  }

  void forward(NativeStream stream, const ConvShape& shape, const float* x, const float* w, float* y,
               std::byte* scratch) override {
    const std::int64_t patch = patch_elements(shape);
    if (is_matrix_product(shape)) {
      const GemmSpec spec{false, true, shape.n * shape.h * shape.w, shape.k, patch};
      if (spec.m > 0) launch_.gemm(stream, spec, 1, x, patch, w, patch, 0, y, shape.k);
      return;
    }
    const ConvChunks chunks = forward_chunks(shape, Launch::kLanes);
    const std::int64_t lines = shape.n * shape.out_h();
    const std::int64_t out_w = shape.out_w();
    launch_.lanes(stream, chunks.lanes, [&](auto& lane, std::int64_t index) {
      float* const col = reinterpret_cast<float*>(scratch) + index * chunks.lane_elements;
      for_chunks(chunks, index, lines, [&](std::int64_t first, std::int64_t count) {
        im2col(lane, stream, shape, x, first, count, col);
        const GemmSpec spec{false, true, count * out_w, shape.k, patch};
        lane.gemm(stream, spec, 1, col, patch, w, patch, 0, y + first * out_w * shape.k, shape.k);
      });
    });
  }

  void backward_data(NativeStream stream, const ConvShape& shape, const float* dy, const float* w, float* dx,
                     std::byte* scratch) override {
    const std::int64_t patch = patch_elements(shape);
    if (is_matrix_product(shape)) {
      const GemmSpec spec{false, false, shape.n * shape.h * shape.w, patch, shape.k};
      if (spec.m > 0) launch_.gemm(stream, spec, 1, dy, shape.k, w, patch, 0, dx, patch);
      return;
    }
    const ConvChunks chunks = backward_data_chunks(shape, Launch::kLanes);
    const std::int64_t out_pixels = shape.out_h() * shape.out_w();
    const std::int64_t line = shape.w * shape.c;
    launch_.lanes(stream, chunks.lanes, [&](auto& lane, std::int64_t index) {
      float* const col = reinterpret_cast<float*>(scratch) + index * chunks.lane_elements;
      for_chunks(chunks, index, shape.n, [&](std::int64_t first, std::int64_t count) {
        const GemmSpec spec{false, false, count * out_pixels, patch, shape.k};
        lane.gemm(stream, spec, 1, dy + first * out_pixels * shape.k, shape.k, w, patch, 0, col, patch);
        lane.for_each_row(stream, count * shape.h, line,
                          operations::Col2Im{shape, shape.out_h(), shape.out_w(), col, dx + first * shape.h * line});
      });
    });
  }

  void backward_weight(NativeStream stream, const ConvShape& shape, const float* x, const float* dy, float* dw,
                       std::byte* scratch) override {
    const std::int64_t patch = patch_elements(shape);
    const std::int64_t weights = weight_elements(shape);
    const ConvChunks chunks = backward_weight_chunks(shape, Launch::kLanes);
    const std::int64_t lines = shape.n * shape.out_h();
    const std::int64_t out_w = shape.out_w();
    if (lines < 1) {
      launch_.for_each(stream, weights, operations::Fill{0, dw});
      return;
    }
    const bool has_columns = !is_matrix_product(shape);
    float* const parts = chunks.lanes == 1 ? dw : reinterpret_cast<float*>(scratch);
    float* const columns = reinterpret_cast<float*>(scratch) + (chunks.lanes == 1 ? 0 : chunks.lanes * weights);
    launch_.lanes(stream, chunks.lanes, [&](auto& lane, std::int64_t index) {
      float beta = 0;
      for_chunks(chunks, index, lines, [&](std::int64_t first, std::int64_t count) {
        const float* col = x + first * out_w * patch;
        if (has_columns) {
          float* const own = columns + index * chunks.lane_elements;
          im2col(lane, stream, shape, x, first, count, own);
          col = own;
        }
        const GemmSpec spec{true, false, shape.k, patch, count * out_w};
        lane.gemm(stream, spec, 1, dy + first * out_w * shape.k, shape.k, col, patch, beta, parts + index * weights,
                  patch);
        beta = 1;
      });
    });
    if (chunks.lanes > 1) launch_.for_each(stream, weights, operations::AddParts{parts, chunks.lanes, weights, dw});
  }

 private:
  /// Calls body(first, count) for the chunks of a lane, in order.
  template <class Body>
  static void for_chunks(const ConvChunks& chunks, std::int64_t lane, std::int64_t units, const Body& body) {
    const std::int64_t end = operations::smaller(units, (lane + 1) * chunks.units_per_lane);
    for (std::int64_t first = lane * chunks.units_per_lane; first < end; first += chunks.units_per_chunk) {
      body(first, operations::smaller(chunks.units_per_chunk, end - first));
    }
  }

  template <class Lane>
  static void im2col(Lane& lane, NativeStream stream, const ConvShape& shape, const float* x, std::int64_t first_line,
                     std::int64_t lines, float* col) {
    lane.for_each_row(stream, lines, shape.out_w() * patch_elements(shape),
                      operations::Im2Col{shape, shape.out_h(), shape.out_w(), first_line, x, col});
  }

  Launch& launch_;
};

}  // namespace penstock::trainer
