// What holds for all operations: no result depends on threads, allowed aliases change nothing, empty and single inputs
// work.
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/gpu/device.h>

#include "every_operation.h"
#include "stored_tensors.h"

namespace penstock::trainer {
namespace {

void expect_equal(const std::map<std::string, std::vector<char>>& got,
                  const std::map<std::string, std::vector<char>>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, bytes] : want) EXPECT_TRUE(got.at(name) == bytes) << name << " differs";
}

TEST(BackendOperationsTest, AnyNumberOfThreadsGivesTheSameBytes) {
  const auto one = every_operation(*host_backend(1), 5, false);
  EXPECT_GE(one.size(), 40U);
  for (const std::size_t threads : {std::size_t{2}, std::size_t{3}, std::size_t{8}}) {
    SCOPED_TRACE(threads);
    expect_equal(every_operation(*host_backend(threads), 5, false), one);
  }
}

TEST(BackendOperationsTest, EveryOutputIsWritten) {
  for (const auto& [name, bytes] : every_operation(*host_backend(), 6, false)) {
    if (name == "entropy/labels" || name == "global/index" || name == "pool/index") continue;
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    if (name != "entropy/sums") {
      for (const float value : values) ASSERT_FALSE(std::isnan(value)) << name;
    }
    EXPECT_NE(std::vector<char>(bytes.size(), 0), bytes) << name << " is all zeros";
  }
}

TEST(BackendOperationsTest, AllowedAliasesChangeNothing) {
  const auto backend = host_backend();
  expect_equal(every_operation(*backend, 7, true), every_operation(*backend, 7, false));
}

TEST(BackendOperationsTest, OtherInputsGiveOtherBytes) {
  const auto backend = host_backend();
  const auto first = every_operation(*backend, 7, false);
  for (const auto& [name, bytes] : every_operation(*backend, 8, false)) {
    if (name == "scalars" || name == "entropy/labels") continue;
    EXPECT_FALSE(first.at(name) == bytes) << name << " does not depend on its inputs";
  }
}

TEST(BackendOperationsTest, EmptyInputsTouchNothing) {
  const auto backend = host_backend();
  MetricSums sums{1.5, 2, 1, 1, 0};
  backend->relu_forward(nullptr, 0, nullptr, nullptr);
  backend->relu_backward(nullptr, 0, nullptr, nullptr, nullptr);
  backend->add(nullptr, 0, nullptr, nullptr, nullptr);
  backend->copy(nullptr, 0, nullptr, nullptr);
  backend->sgd_update(nullptr, 0, nullptr, nullptr, nullptr, nullptr, 0.9F, 0);
  backend->cast_normalise(nullptr, nullptr, nullptr, 0, 9, 1, Normalisation{}, 0);
  backend->copy_labels(nullptr, nullptr, nullptr, 0, 0);
  backend->conv_forward(nullptr, ConvShape{0, 5, 5, 2, 3, 3, 3, 1, 1}, nullptr, nullptr, nullptr, nullptr);
  backend->conv_backward_data(nullptr, ConvShape{0, 5, 5, 2, 3, 3, 3, 1, 1}, nullptr, nullptr, nullptr, nullptr);
  backend->linear_forward(nullptr, 0, 3, 2, nullptr, nullptr, nullptr, nullptr, nullptr);
  backend->max_pool_forward(nullptr, PoolShape{0, 4, 4, 2, 2}, nullptr, nullptr, nullptr);
  backend->max_pool_forward(nullptr, PoolShape{1, 1, 1, 2, 2}, nullptr, nullptr, nullptr);
  backend->global_average_pool_forward(nullptr, 0, 4, 2, nullptr, nullptr);
  backend->softmax_cross_entropy(nullptr, 0, 10, nullptr, nullptr, 0, nullptr, &sums, nullptr);
  EXPECT_EQ(sums.count, 2);
  EXPECT_EQ(sums.loss, 1.5);
}

TEST(BackendOperationsTest, GradientOfNoRowsIsZero) {
  const auto backend = host_backend();
  auto dw = unwritten(54);
  const ConvShape shape{0, 5, 5, 2, 3, 3, 3, 1, 1};
  GuardedScratch scratch(backend->conv_backward_weight_scratch(shape));
  backend->conv_backward_weight(nullptr, shape, nullptr, nullptr, dw.data(), scratch.data());
  EXPECT_EQ(dw, std::vector<float>(54, 0.0F));
  auto linear_dw = unwritten(6);
  auto dbias = unwritten(2);
  GuardedScratch linear_scratch(backend->linear_scratch(0, 3, 2));
  backend->linear_backward_weight(nullptr, 0, 3, 2, nullptr, nullptr, linear_dw.data(), dbias.data(),
                                  linear_scratch.data());
  EXPECT_EQ(linear_dw, std::vector<float>(6, 0.0F));
  EXPECT_EQ(dbias, std::vector<float>(2, 0.0F));
}

TEST(BackendOperationsTest, CastNormalisesByChannelAndClearsRowsWithoutSample) {
  const auto backend = host_backend();
  Normalisation normalisation{{0.5F, 0.25F, 0, 0}, {2, 4, 1, 1}};
  const std::vector<std::uint8_t> in{0, 255, 51, 102, 9, 9, 9, 9};
  auto out = unwritten(8);
  backend->cast_normalise(nullptr, in.data(), out.data(), 2, 2, 2, normalisation, 1);
  expect_near(out, {-1, 3, -0.6F, 0.6F, 0, 0, 0, 0}, 1e-6, "two channels");
  auto grey = unwritten(8);
  backend->cast_normalise(nullptr, in.data(), grey.data(), 4, 2, 1, normalisation, 3);
  expect_near(grey, {-1, 1, -0.6F, -0.2F, 2 * (9 / 255.0F - 0.5F), 2 * (9 / 255.0F - 0.5F), 0, 0}, 1e-6, "grey");
}

TEST(BackendOperationsTest, LabelsBecomeNarrowAndRowsWithoutSampleHaveNone) {
  const auto backend = host_backend();
  const std::vector<std::int64_t> in{3, -5, std::int64_t{1} << 32, 7, 8};
  std::vector<std::int32_t> out(5, -99);
  backend->copy_labels(nullptr, in.data(), out.data(), 5, 4);
  EXPECT_EQ(out, (std::vector<std::int32_t>{3, -1, std::numeric_limits<std::int32_t>::max(), 7, -1}));
}

TEST(BackendOperationsTest, VarianceIsSoundFarFromZero) {
  const auto backend = host_backend();
  const std::int64_t rows = 3000;
  std::vector<float> x(3000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 4096.0F + static_cast<float>(i % 5) / 64.0F;
  const std::vector<float> gamma{1};
  const std::vector<float> beta{0};
  auto y = unwritten(x.size());
  std::vector<float> mean(1);
  std::vector<float> inverse(1);
  std::vector<float> running_mean(1, 0.0F);
  std::vector<float> running_variance(1, 0.0F);
  GuardedScratch scratch(backend->batch_norm_scratch(rows, 1));
  backend->batch_norm_forward_train(nullptr, rows, 1, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                                    inverse.data(), running_mean.data(), running_variance.data(), 1, 0, scratch.data());
  EXPECT_EQ(mean[0], 4096.0F + 2.0F / 64);
  EXPECT_NEAR(static_cast<double>(inverse[0]), 64 / std::sqrt(2.0), 1e-4);
  EXPECT_NEAR(static_cast<double>(running_variance[0]), 2.0 / 4096 * 3000 / 2999, 1e-9);
}

TEST(BackendOperationsTest, WhatIsNotANumberStaysVisible) {
  const auto backend = host_backend();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{nan, 2, 1, 3};
  auto y = unwritten(4);
  backend->relu_forward(nullptr, 4, x.data(), y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[3], 3);
  for (std::size_t place = 0; place < 4; ++place) {
    std::vector<float> map{1, 5, 2, 3};
    map[place] = nan;
    float pooled = 0;
    backend->max_pool_forward(nullptr, PoolShape{1, 2, 2, 1, 2}, map.data(), &pooled, nullptr);
    EXPECT_TRUE(std::isnan(pooled)) << place;
    backend->global_max_pool_forward(nullptr, 1, 4, 1, map.data(), &pooled, nullptr);
    EXPECT_TRUE(std::isnan(pooled)) << place;
  }
}

TEST(BackendOperationsTest, HostDeviceGetsTheHostBackend) {
  const Runtime runtime(RuntimeOptions{.threads = 2});
  const auto device = gpu::make_host_device(runtime, std::uint64_t{1} << 20);
  const auto backend = make_backend(*device, runtime);
  float value = 3;
  backend->scale(nullptr, 1, 2, &value, &value);
  EXPECT_EQ(value, 6);
}

}  // namespace
}  // namespace penstock::trainer
