// Every operation, written once over a launcher: what to run is here and in operations/, how to run it is the
// launcher's.
//
// A `Launch` has
//   static constexpr std::int64_t kLanes;       lanes that may run at once: kMostLanes on the host, 1 on a GPU
//   for_each(stream, n, f)                      f(i) for each i in [0, n)
//   for_each_row(stream, rows, width, f)        f(row, begin, end), the ranges making up [0, width) of each row:
//                                               (row, 0, width) on the host, (row, i, i + 1) of a GPU's thread
//   gemm(stream, spec, alpha, a, lda, b, ldb, beta, c, ldc)   as GemmSpec says; with beta 0, c is not read
//   lanes(stream, count, f)                     f(lane, index) for index in [0, count), at once or in order; `lane`
//                                               is a launcher too (on a GPU: the same one), whose calls stay inside it
// All are done in stream order: a call sees what earlier calls wrote. Counts of 0 launch nothing. Functors are
// trivially copyable, copied into the launch, and safe to run in any order; `F::kElementWork`, where there is one, says
// how many plain element operations a call for one element costs.
#pragma once

#include <memory>
#include <utility>

#include <penstock/trainer/backend.h>
#include <penstock/trainer/conv_engine.h>
#include <penstock/trainer/gemm_conv_engine.h>
#include <penstock/trainer/operations/arithmetic.h>
#include <penstock/trainer/operations/batch_norm.h>
#include <penstock/trainer/operations/bias.h>
#include <penstock/trainer/operations/cast.h>
#include <penstock/trainer/operations/column_sum.h>
#include <penstock/trainer/operations/global_pool.h>
#include <penstock/trainer/operations/max_pool.h>
#include <penstock/trainer/operations/relu.h>
#include <penstock/trainer/operations/scalars.h>
#include <penstock/trainer/operations/sgd.h>
#include <penstock/trainer/operations/softmax_cross_entropy.h>

namespace penstock::trainer {

/// The back end of any launcher.
template <class Launch>
class BackendOf final : public Backend {
 public:
  /// `engine` null: im2col + gemm.
  explicit BackendOf(Launch launch, std::unique_ptr<ConvEngine> engine = nullptr)
      : launch_(std::move(launch)), engine_(std::move(engine)) {
    if (engine_ == nullptr) engine_ = std::make_unique<GemmConvEngine<Launch>>(launch_);
  }
  BackendOf(const BackendOf&) = delete;
  BackendOf& operator=(const BackendOf&) = delete;

  std::size_t conv_forward_scratch(const ConvShape& shape) const override { return engine_->forward_scratch(shape); }
  std::size_t conv_backward_data_scratch(const ConvShape& shape) const override {
    return engine_->backward_data_scratch(shape);
  }
  std::size_t conv_backward_weight_scratch(const ConvShape& shape) const override {
    return engine_->backward_weight_scratch(shape);
  }
  std::size_t linear_scratch(std::int64_t n, std::int64_t /*in*/, std::int64_t out) const override {
    return sizeof(double) * static_cast<std::size_t>(partial_rows(n) * out);
  }
  std::size_t batch_norm_scratch(std::int64_t rows, std::int64_t c) const override {
    return 2 * sizeof(double) * static_cast<std::size_t>(partial_rows(rows) * c);
  }
  std::size_t softmax_cross_entropy_scratch(std::int64_t n, std::int64_t /*classes*/) const override {
    return static_cast<std::size_t>(n) * sizeof(operations::RowMetrics) +
           static_cast<std::size_t>(tiles_of(n)) * sizeof(std::int32_t);
  }

  void set_scalars(NativeStream stream, StepScalars* to, StepScalars value) override {
    launch_.for_each(stream, 1, operations::SetScalars{to, value});
  }
  void cast_normalise(NativeStream stream, const std::uint8_t* in, float* out, std::int64_t n, std::int64_t pixels,
                      std::int64_t c, const Normalisation& normalisation, std::int64_t valid) override {
    launch_.for_each_row(stream, n, pixels * c,
                         operations::CastNormalise{in, out, pixels * c, c, normalisation, valid});
  }
  void copy_labels(NativeStream stream, const std::int64_t* in, std::int32_t* out, std::int64_t n,
                   std::int64_t valid) override {
    launch_.for_each(stream, n, operations::CopyLabels{in, out, valid});
  }

  void conv_forward(NativeStream stream, const ConvShape& shape, const float* x, const float* w, float* y,
                    std::byte* scratch) override {
    engine_->forward(stream, shape, x, w, y, scratch);
  }
  void conv_backward_data(NativeStream stream, const ConvShape& shape, const float* dy, const float* w, float* dx,
                          std::byte* scratch) override {
    engine_->backward_data(stream, shape, dy, w, dx, scratch);
  }
  void conv_backward_weight(NativeStream stream, const ConvShape& shape, const float* x, const float* dy, float* dw,
                            std::byte* scratch) override {
    engine_->backward_weight(stream, shape, x, dy, dw, scratch);
  }

  void linear_forward(NativeStream stream, std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                      const float* w, const float* bias, float* y, std::byte* /*scratch*/) override {
    if (n < 1) return;
    launch_.gemm(stream, GemmSpec{false, true, n, out, in}, 1, x, in, w, in, 0, y, out);
    if (bias != nullptr) launch_.for_each_row(stream, n, out, operations::AddBias{bias, y, out});
  }
  void linear_backward_data(NativeStream stream, std::int64_t n, std::int64_t in, std::int64_t out, const float* dy,
                            const float* w, float* dx, std::byte* /*scratch*/) override {
    if (n < 1) return;
    launch_.gemm(stream, GemmSpec{false, false, n, in, out}, 1, dy, out, w, in, 0, dx, in);
  }
  void linear_backward_weight(NativeStream stream, std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                              const float* dy, float* dw, float* dbias, std::byte* scratch) override {
    if (n < 1) {
      launch_.for_each(stream, out * in, operations::Fill{0, dw});
    } else {
      launch_.gemm(stream, GemmSpec{true, false, out, in, n}, 1, dy, out, x, in, 0, dw, in);
    }
    if (dbias == nullptr) return;
    double* const tiles = reinterpret_cast<double*>(scratch);
    launch_.for_each_row(stream, tiles_of(n), out, operations::ColumnSumTile{dy, tiles, n, out});
    sum_tiles(stream, tiles, tiles_of(n), out, nullptr, dbias);
  }

  void batch_norm_forward_train(NativeStream stream, std::int64_t rows, std::int64_t c, const float* x,
                                const float* gamma, const float* beta, float* y, float* saved_mean,
                                float* saved_inverse_deviation, float* running_mean, float* running_variance,
                                float momentum, float eps, std::byte* scratch) override {
    const std::int64_t tiles = tiles_of(rows);
    const std::int64_t groups = groups_of(tiles);
    double* const tile_mean = reinterpret_cast<double*>(scratch);
    double* const tile_m2 = tile_mean + tiles * c;
    double* const group_mean = tile_m2 + tiles * c;
    double* const group_m2 = group_mean + groups * c;
    launch_.for_each_row(stream, tiles, c, operations::MomentsTile{x, tile_mean, tile_m2, rows, c});
    const operations::MomentsOf of_tiles{tile_mean, tile_m2, operations::kTileRows, rows, c};
    launch_.for_each_row(stream, groups, c, operations::MomentsGroup{of_tiles, tiles, group_mean, group_m2});
    const operations::MomentsOf of_groups{group_mean, group_m2, operations::kTileRows * operations::kGroupTiles, rows,
                                          c};
    launch_.for_each(stream, c,
                     operations::MomentsFinish{of_groups, groups, saved_mean, saved_inverse_deviation, running_mean,
                                               running_variance, momentum, eps});
    launch_.for_each_row(
        stream, tiles, c,
        operations::Normalise{x, gamma, beta, saved_mean, saved_inverse_deviation, nullptr, 0, y, rows, c});
  }
  void batch_norm_forward_eval(NativeStream stream, std::int64_t rows, std::int64_t c, const float* x,
                               const float* gamma, const float* beta, float* y, const float* running_mean,
                               const float* running_variance, float eps) override {
    launch_.for_each_row(
        stream, tiles_of(rows), c,
        operations::Normalise{x, gamma, beta, running_mean, nullptr, running_variance, eps, y, rows, c});
  }
  void batch_norm_backward(NativeStream stream, std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                           const float* saved_mean, const float* saved_inverse_deviation, const float* dy, float* dx,
                           float* dgamma, float* dbeta, std::byte* scratch) override {
    const std::int64_t tiles = tiles_of(rows);
    const std::int64_t part = partial_rows(rows) * c;
    double* const sum_dy = reinterpret_cast<double*>(scratch);
    double* const sum_dy_x = sum_dy + part;
    launch_.for_each_row(stream, tiles, c, operations::NormGradientTile{x, dy, saved_mean, sum_dy, sum_dy_x, rows, c});
    sum_tiles(stream, sum_dy, tiles, c, nullptr, dbeta);
    sum_tiles(stream, sum_dy_x, tiles, c, saved_inverse_deviation, dgamma);
    launch_.for_each_row(
        stream, tiles, c,
        operations::NormGradient{x, gamma, saved_mean, saved_inverse_deviation, dgamma, dbeta, dy, dx, rows, c});
  }

  void relu_forward(NativeStream stream, std::int64_t count, const float* x, float* y) override {
    launch_.for_each(stream, count, operations::ReluForward{x, y});
  }
  void relu_backward(NativeStream stream, std::int64_t count, const float* y, const float* dy, float* dx) override {
    launch_.for_each(stream, count, operations::ReluBackward{y, dy, dx});
  }

  void max_pool_forward(NativeStream stream, const PoolShape& shape, const float* x, float* y,
                        std::uint8_t* index) override {
    const std::int64_t out_h = shape.h / shape.size;
    const std::int64_t out_w = shape.w / shape.size;
    launch_.for_each_row(stream, shape.n * out_h, out_w * shape.c,
                         operations::MaxPoolForward{shape, out_h, out_w, x, y, index});
  }
  void max_pool_backward(NativeStream stream, const PoolShape& shape, const float* dy, const std::uint8_t* index,
                         float* dx) override {
    launch_.for_each_row(stream, shape.n * shape.h, shape.w * shape.c,
                         operations::MaxPoolBackward{shape, shape.h / shape.size, shape.w / shape.size, dy, index, dx});
  }
  void global_max_pool_forward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c, const float* x,
                               float* y, std::int32_t* index) override {
    launch_.for_each_row(stream, n, c, operations::GlobalMaxPoolForward{x, y, index, pixels, c});
  }
  void global_max_pool_backward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                const float* dy, const std::int32_t* index, float* dx) override {
    launch_.for_each_row(stream, n, c, operations::GlobalMaxPoolBackward{dy, index, dx, pixels, c});
  }
  void global_average_pool_forward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                   const float* x, float* y) override {
    launch_.for_each_row(stream, n, c, operations::GlobalAveragePoolForward{x, y, pixels, c});
  }
  void global_average_pool_backward(NativeStream stream, std::int64_t n, std::int64_t pixels, std::int64_t c,
                                    const float* dy, float* dx) override {
    launch_.for_each_row(stream, n, c, operations::GlobalAveragePoolBackward{dy, dx, pixels, c});
  }

  void add(NativeStream stream, std::int64_t count, const float* a, const float* b, float* y) override {
    launch_.for_each(stream, count, operations::Add{a, b, y});
  }
  void scale(NativeStream stream, std::int64_t count, float factor, const float* x, float* y) override {
    launch_.for_each(stream, count, operations::Scale{factor, x, y});
  }
  void copy(NativeStream stream, std::int64_t count, const float* x, float* y) override {
    launch_.for_each(stream, count, operations::Copy{x, y});
  }

  void softmax_cross_entropy(NativeStream stream, std::int64_t n, std::int64_t classes, const float* logits,
                             const std::int32_t* labels, float smoothing, float* dlogits, MetricSums* sums,
                             std::byte* scratch) override {
    auto* const metrics = reinterpret_cast<operations::RowMetrics*>(scratch);
    auto* const counts =
        reinterpret_cast<std::int32_t*>(scratch + static_cast<std::size_t>(n) * sizeof(operations::RowMetrics));
    const std::int64_t tiles = tiles_of(n);
    launch_.for_each(stream, tiles, operations::CountLabels{labels, n, counts});
    launch_.for_each(
        stream, n,
        operations::SoftmaxCrossEntropyRow{logits, labels, classes, smoothing, dlogits, counts, tiles, metrics});
    launch_.for_each(stream, n > 0 ? 1 : 0, operations::AddMetrics{metrics, n, sums});
  }

  void sgd_update(NativeStream stream, std::int64_t count, float* w, const float* g, float* m,
                  const StepScalars* scalars, float momentum, float weight_decay) override {
    launch_.for_each(stream, count, operations::SgdUpdate{w, g, m, scalars, momentum, weight_decay});
  }

 private:
  static constexpr std::int64_t tiles_of(std::int64_t rows) {
    return operations::ceil_div(rows, operations::kTileRows);
  }
  static constexpr std::int64_t groups_of(std::int64_t tiles) {
    return operations::ceil_div(tiles, operations::kGroupTiles);
  }
  /// Partial results that a reduction over `rows` keeps per channel: one a tile and one a group.
  static constexpr std::int64_t partial_rows(std::int64_t rows) { return tiles_of(rows) + groups_of(tiles_of(rows)); }

  /// Sums `tiles` partial rows of c into y; the groups' sums come after the tiles in memory.
  void sum_tiles(NativeStream stream, double* tiles, std::int64_t tile_count, std::int64_t c, const float* factor,
                 float* y) {
    double* const groups = tiles + tile_count * c;
    launch_.for_each_row(stream, groups_of(tile_count), c, operations::ColumnSumGroup{tiles, groups, tile_count, c});
    launch_.for_each(stream, c, operations::ColumnSumFinish{groups, groups_of(tile_count), c, factor, y});
  }

  Launch launch_;
  std::unique_ptr<ConvEngine> engine_;
};

}  // namespace penstock::trainer
