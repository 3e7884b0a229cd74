// Gradients against central differences of the forward pass. The loss is sum(y * dy) in double; a step of 1/64 leaves
// f32 rounding of about 1e-5 in a difference, so 2e-3 relative (with a floor of one) is asked.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "stored_tensors.h"

namespace penstock::trainer {
namespace {

constexpr float kStep = 1.0F / 64;
constexpr double kTolerance = 2e-3;

/// Checks `gradient` of the scalar `loss()` with regard to `values`.
template <class Loss>
void expect_gradient(std::vector<float>& values, const std::vector<float>& gradient, const Loss& loss,
                     const std::string& what) {
  ASSERT_EQ(values.size(), gradient.size());
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float old = values[i];
    values[i] = old + kStep;
    const double above = loss();
    values[i] = old - kStep;
    const double below = loss();
    values[i] = old;
    const double expected = (above - below) / (2 * static_cast<double>(kStep));
    largest = std::max(largest, std::abs(expected));
    ASSERT_NEAR(static_cast<double>(gradient[i]), expected, kTolerance * (1 + std::abs(expected)))
        << what << " at " << i;
  }
  EXPECT_GT(largest, 0.01) << what << ": a gradient of zeros proves nothing";
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(GradientTest, Convolution) {
  const auto backend = host_backend();
  for (const ConvShape& shape : {ConvShape{2, 5, 4, 3, 4, 3, 3, 1, 1}, ConvShape{1, 7, 7, 2, 3, 3, 3, 2, 1},
                                 ConvShape{1, 4, 4, 3, 2, 1, 1, 1, 0}}) {
    auto x = random_values(static_cast<std::size_t>(shape.n * shape.h * shape.w * shape.c), 1);
    auto w = random_values(static_cast<std::size_t>(shape.k * shape.r * shape.s * shape.c), 2);
    auto y = unwritten(static_cast<std::size_t>(shape.n * shape.out_h() * shape.out_w() * shape.k));
    const auto dy = random_values(y.size(), 3);
    auto dx = unwritten(x.size());
    auto dw = unwritten(w.size());
    GuardedScratch forward(backend->conv_forward_scratch(shape));
    GuardedScratch data(backend->conv_backward_data_scratch(shape));
    GuardedScratch weight(backend->conv_backward_weight_scratch(shape));
    backend->conv_backward_data(nullptr, shape, dy.data(), w.data(), dx.data(), data.data());
    backend->conv_backward_weight(nullptr, shape, x.data(), dy.data(), dw.data(), weight.data());
    const auto loss = [&] {
      backend->conv_forward(nullptr, shape, x.data(), w.data(), y.data(), forward.data());
      return dot(y, dy);
    };
    expect_gradient(x, dx, loss, "dx");
    expect_gradient(w, dw, loss, "dw");
  }
}

TEST(GradientTest, Linear) {
  const auto backend = host_backend();
  const std::int64_t n = 5;
  const std::int64_t in = 6;
  const std::int64_t out = 3;
  auto x = random_values(30, 1);
  auto w = random_values(18, 2);
  auto bias = random_values(3, 3);
  auto y = unwritten(15);
  const auto dy = random_values(15, 4);
  auto dx = unwritten(30);
  auto dw = unwritten(18);
  auto dbias = unwritten(3);
  GuardedScratch scratch(backend->linear_scratch(n, in, out));
  backend->linear_backward_data(nullptr, n, in, out, dy.data(), w.data(), dx.data(), scratch.data());
  backend->linear_backward_weight(nullptr, n, in, out, x.data(), dy.data(), dw.data(), dbias.data(), scratch.data());
  const auto loss = [&] {
    backend->linear_forward(nullptr, n, in, out, x.data(), w.data(), bias.data(), y.data(), scratch.data());
    return dot(y, dy);
  };
  expect_gradient(x, dx, loss, "dx");
  expect_gradient(w, dw, loss, "dw");
  expect_gradient(bias, dbias, loss, "dbias");
}

TEST(GradientTest, BatchNorm) {
  const auto backend = host_backend();
  const std::int64_t rows = 70;
  const std::int64_t c = 3;
  auto x = random_values(210, 1);
  auto gamma = random_values(3, 2);
  auto beta = random_values(3, 3);
  auto y = unwritten(210);
  const auto dy = random_values(210, 4);
  auto dx = unwritten(210);
  auto dgamma = unwritten(3);
  auto dbeta = unwritten(3);
  auto mean = unwritten(3);
  auto inverse = unwritten(3);
  std::vector<float> running_mean(3, 0.0F);
  std::vector<float> running_variance(3, 1.0F);
  GuardedScratch scratch(backend->batch_norm_scratch(rows, c));
  const auto loss = [&] {
    backend->batch_norm_forward_train(nullptr, rows, c, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                                      inverse.data(), running_mean.data(), running_variance.data(), 0.1F, 1e-5F,
                                      scratch.data());
    return dot(y, dy);
  };
  loss();
  backend->batch_norm_backward(nullptr, rows, c, x.data(), gamma.data(), mean.data(), inverse.data(), dy.data(),
                               dx.data(), dgamma.data(), dbeta.data(), scratch.data());
  expect_gradient(x, dx, loss, "dx");
  expect_gradient(gamma, dgamma, loss, "dgamma");
  expect_gradient(beta, dbeta, loss, "dbeta");
}

TEST(GradientTest, SoftmaxCrossEntropy) {
  const auto backend = host_backend();
  const std::int64_t n = 6;
  const std::int64_t classes = 4;
  const std::vector<std::int32_t> labels{3, 0, -1, 1, 2, 2};
  auto logits = random_values(24, 1);
  auto dlogits = unwritten(24);
  GuardedScratch scratch(backend->softmax_cross_entropy_scratch(n, classes));
  const auto loss = [&] {
    MetricSums sums;
    backend->softmax_cross_entropy(nullptr, n, classes, logits.data(), labels.data(), 0.2F, nullptr, &sums,
                                   scratch.data());
    return sums.loss / static_cast<double>(sums.count);
  };
  MetricSums sums;
  backend->softmax_cross_entropy(nullptr, n, classes, logits.data(), labels.data(), 0.2F, dlogits.data(), &sums,
                                 scratch.data());
  EXPECT_EQ(sums.count, 5);
  expect_gradient(logits, dlogits, loss, "dlogits");
}

}  // namespace
}  // namespace penstock::trainer
