// Every operation against what PyTorch gives in double precision (tests/data/operations). Tolerance is relative with a
// floor of one: 1e-5, about a hundred roundings of f32.
#include <cmath>

#include <gtest/gtest.h>

#include "stored_tensors.h"

namespace penstock::trainer {
namespace {

constexpr double kTolerance = 1e-5;

class ReferenceTest : public testing::Test {
 protected:
  const std::vector<float>& stored(const std::string& name) { return tensors_.f32.at(name); }
  const StoredTensors& tensors_ = stored_tensors();
  std::shared_ptr<Backend> backend_ = host_backend();
};

TEST_F(ReferenceTest, ConvolutionPasses) {
  for (const auto& [name, v] : tensors_.cases("conv")) {
    SCOPED_TRACE(name);
    const ConvShape shape{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]};
    const auto& x = stored(name + "/x");
    const auto& w = stored(name + "/w");
    const auto& dy = stored(name + "/dy");
    ASSERT_EQ(static_cast<std::int64_t>(dy.size()), shape.n * shape.out_h() * shape.out_w() * shape.k);
    auto y = unwritten(dy.size());
    auto dx = unwritten(x.size());
    auto dw = unwritten(w.size());
    GuardedScratch forward(backend_->conv_forward_scratch(shape));
    GuardedScratch data(backend_->conv_backward_data_scratch(shape));
    GuardedScratch weight(backend_->conv_backward_weight_scratch(shape));
    backend_->conv_forward(nullptr, shape, x.data(), w.data(), y.data(), forward.data());
    backend_->conv_backward_data(nullptr, shape, dy.data(), w.data(), dx.data(), data.data());
    backend_->conv_backward_weight(nullptr, shape, x.data(), dy.data(), dw.data(), weight.data());
    expect_near(y, stored(name + "/y"), kTolerance, "y");
    expect_near(dx, stored(name + "/dx"), kTolerance, "dx");
    expect_near(dw, stored(name + "/dw"), kTolerance, "dw");
  }
}

TEST_F(ReferenceTest, LinearPasses) {
  for (const auto& [name, v] : tensors_.cases("linear")) {
    SCOPED_TRACE(name);
    const std::int64_t n = v[0];
    const std::int64_t in = v[1];
    const std::int64_t out = v[2];
    const auto& x = stored(name + "/x");
    const auto& w = stored(name + "/w");
    const auto& bias = stored(name + "/bias");
    const auto& dy = stored(name + "/dy");
    auto y = unwritten(dy.size());
    auto without_bias = unwritten(dy.size());
    auto dx = unwritten(x.size());
    auto dw = unwritten(w.size());
    auto dw_alone = unwritten(w.size());
    auto dbias = unwritten(bias.size());
    GuardedScratch scratch(backend_->linear_scratch(n, in, out));
    backend_->linear_forward(nullptr, n, in, out, x.data(), w.data(), bias.data(), y.data(), scratch.data());
    backend_->linear_forward(nullptr, n, in, out, x.data(), w.data(), nullptr, without_bias.data(), scratch.data());
    backend_->linear_backward_data(nullptr, n, in, out, dy.data(), w.data(), dx.data(), scratch.data());
    backend_->linear_backward_weight(nullptr, n, in, out, x.data(), dy.data(), dw.data(), dbias.data(), scratch.data());
    backend_->linear_backward_weight(nullptr, n, in, out, x.data(), dy.data(), dw_alone.data(), nullptr,
                                     scratch.data());
    expect_near(y, stored(name + "/y"), kTolerance, "y");
    for (std::size_t i = 0; i < y.size(); ++i) without_bias[i] += bias[i % static_cast<std::size_t>(out)];
    expect_same_bytes(without_bias, y, "y without bias, plus bias");
    expect_near(dx, stored(name + "/dx"), kTolerance, "dx");
    expect_near(dw, stored(name + "/dw"), kTolerance, "dw");
    expect_same_bytes(dw_alone, dw, "dw without dbias");
    expect_near(dbias, stored(name + "/dbias"), kTolerance, "dbias");
  }
}

TEST_F(ReferenceTest, BatchNormPasses) {
  for (const auto& [name, v] : tensors_.cases("norm")) {
    SCOPED_TRACE(name);
    const std::int64_t rows = v[0];
    const std::int64_t c = v[1];
    const auto& x = stored(name + "/x");
    const auto& gamma = stored(name + "/gamma");
    const auto& beta = stored(name + "/beta");
    const auto& dy = stored(name + "/dy");
    auto running_mean = stored(name + "/old_mean");
    auto running_variance = stored(name + "/old_variance");
    auto evaluated = unwritten(x.size());
    backend_->batch_norm_forward_eval(nullptr, rows, c, x.data(), gamma.data(), beta.data(), evaluated.data(),
                                      running_mean.data(), running_variance.data(), 1e-5F);
    expect_near(evaluated, stored(name + "/evaluated"), kTolerance, "evaluated");

    auto y = unwritten(x.size());
    auto mean = unwritten(gamma.size());
    auto inverse = unwritten(gamma.size());
    GuardedScratch scratch(backend_->batch_norm_scratch(rows, c));
    backend_->batch_norm_forward_train(nullptr, rows, c, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                                       inverse.data(), running_mean.data(), running_variance.data(), 0.1F, 1e-5F,
                                       scratch.data());
    // Over two rows 1/sqrt(var + eps) may be as large as 316, and errors with it.
    const double tolerance = rows == 2 ? 1e-3 : kTolerance;
    expect_near(y, stored(name + "/y"), tolerance, "y");
    expect_near(running_mean, stored(name + "/new_mean"), kTolerance, "running mean");
    expect_near(running_variance, stored(name + "/new_variance"), kTolerance, "running variance");

    auto dx = unwritten(x.size());
    auto dgamma = unwritten(gamma.size());
    auto dbeta = unwritten(gamma.size());
    backend_->batch_norm_backward(nullptr, rows, c, x.data(), gamma.data(), mean.data(), inverse.data(), dy.data(),
                                  dx.data(), dgamma.data(), dbeta.data(), scratch.data());
    expect_near(dx, stored(name + "/dx"), tolerance, "dx");
    expect_near(dgamma, stored(name + "/dgamma"), tolerance, "dgamma");
    expect_near(dbeta, stored(name + "/dbeta"), kTolerance, "dbeta");
  }
}

TEST_F(ReferenceTest, MaxPoolPasses) {
  for (const auto& [name, v] : tensors_.cases("pool")) {
    SCOPED_TRACE(name);
    const PoolShape shape{v[0], v[1], v[2], v[3], v[4]};
    const auto& x = stored(name + "/x");
    const auto& dy = stored(name + "/dy");
    auto y = unwritten(dy.size());
    auto evaluated = unwritten(dy.size());
    auto dx = unwritten(x.size());
    std::vector<std::uint8_t> index(dy.size(), 99);
    backend_->max_pool_forward(nullptr, shape, x.data(), y.data(), index.data());
    backend_->max_pool_forward(nullptr, shape, x.data(), evaluated.data(), nullptr);
    backend_->max_pool_backward(nullptr, shape, dy.data(), index.data(), dx.data());
    expect_same_bytes(y, stored(name + "/y"), "y");
    expect_same_bytes(evaluated, y, "y without index");
    EXPECT_EQ(index, tensors_.u8.at(name + "/index"));
    expect_near(dx, stored(name + "/dx"), 0, "dx");
  }
}

TEST_F(ReferenceTest, GlobalPoolPasses) {
  for (const auto& [name, v] : tensors_.cases("global")) {
    SCOPED_TRACE(name);
    const std::int64_t n = v[0];
    const std::int64_t pixels = v[1];
    const std::int64_t c = v[2];
    const auto& x = stored(name + "/x");
    const auto& dy = stored(name + "/dy");
    auto highest = unwritten(dy.size());
    auto evaluated = unwritten(dy.size());
    auto average = unwritten(dy.size());
    auto highest_dx = unwritten(x.size());
    auto average_dx = unwritten(x.size());
    std::vector<std::int32_t> index(dy.size(), -9);
    backend_->global_max_pool_forward(nullptr, n, pixels, c, x.data(), highest.data(), index.data());
    backend_->global_max_pool_forward(nullptr, n, pixels, c, x.data(), evaluated.data(), nullptr);
    backend_->global_max_pool_backward(nullptr, n, pixels, c, dy.data(), index.data(), highest_dx.data());
    backend_->global_average_pool_forward(nullptr, n, pixels, c, x.data(), average.data());
    backend_->global_average_pool_backward(nullptr, n, pixels, c, dy.data(), average_dx.data());
    expect_same_bytes(highest, stored(name + "/highest"), "highest");
    expect_same_bytes(evaluated, highest, "highest without index");
    EXPECT_EQ(index, tensors_.i32.at(name + "/index"));
    expect_near(highest_dx, stored(name + "/highest_dx"), 0, "highest dx");
    expect_near(average, stored(name + "/average"), kTolerance, "average");
    expect_near(average_dx, stored(name + "/average_dx"), kTolerance, "average dx");
  }
}

TEST_F(ReferenceTest, SoftmaxCrossEntropy) {
  for (const auto& [name, v] : tensors_.cases("entropy")) {
    SCOPED_TRACE(name);
    const std::int64_t n = v[0];
    const std::int64_t classes = v[1];
    const auto& logits = stored(name + "/logits");
    const auto& labels = tensors_.i32.at(name + "/labels");
    const float smoothing = stored(name + "/smoothing")[0];
    auto dlogits = unwritten(logits.size());
    MetricSums sums;
    GuardedScratch scratch(backend_->softmax_cross_entropy_scratch(n, classes));
    backend_->softmax_cross_entropy(nullptr, n, classes, logits.data(), labels.data(), smoothing, dlogits.data(), &sums,
                                    scratch.data());
    expect_near(dlogits, stored(name + "/dlogits"), 1e-6, "dlogits");
    const double loss = tensors_.f64.at(name + "/loss")[0];
    EXPECT_NEAR(sums.loss, loss, 1e-6 * (1 + std::abs(loss)));
    const auto& counts = tensors_.i32.at(name + "/counts");
    EXPECT_EQ(sums.count, counts[0]);
    EXPECT_EQ(sums.top1, counts[1]);
    EXPECT_EQ(sums.top5, counts[2]);
    EXPECT_EQ(sums.not_finite, 0);

    // Evaluation adds the same again and writes no gradient.
    backend_->softmax_cross_entropy(nullptr, n, classes, logits.data(), labels.data(), smoothing, nullptr, &sums,
                                    scratch.data());
    EXPECT_NEAR(sums.loss, 2 * loss, 2e-6 * (1 + std::abs(loss)));
    EXPECT_EQ(sums.count, 2 * counts[0]);
    EXPECT_EQ(sums.top5, 2 * counts[2]);
  }
}

TEST_F(ReferenceTest, SgdWithNesterovMomentumAndDecay) {
  auto w = stored("sgd/start");
  std::vector<float> m(w.size(), 0.0F);
  StepScalars scalars;
  backend_->set_scalars(nullptr, &scalars, StepScalars{0.125F, 1});
  for (int step = 0; step < 3; ++step) {
    const auto& g = stored("sgd/gradient" + std::to_string(step));
    backend_->sgd_update(nullptr, static_cast<std::int64_t>(w.size()), w.data(), g.data(), m.data(), &scalars, 0.875F,
                         0.0625F);
    expect_near(w, stored("sgd/weight" + std::to_string(step)), 1e-6, "w after step " + std::to_string(step));
  }
  expect_near(m, stored("sgd/momentum"), 1e-6, "m");
}

}  // namespace
}  // namespace penstock::trainer
