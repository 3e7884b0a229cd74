// What the metric sums count, and what they pass over.
#include <limits>

#include <gtest/gtest.h>

#include "stored_tensors.h"

namespace penstock::trainer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Result {
  MetricSums sums;
  std::vector<float> dlogits;
};

Result entropy(std::int64_t classes, const std::vector<float>& logits, const std::vector<std::int32_t>& labels,
               MetricSums before = {}) {
  const auto backend = host_backend();
  const std::int64_t n = static_cast<std::int64_t>(labels.size());
  Result result{before, unwritten(logits.size())};
  GuardedScratch scratch(backend->softmax_cross_entropy_scratch(n, classes));
  backend->softmax_cross_entropy(nullptr, n, classes, logits.data(), labels.data(), 0, result.dlogits.data(),
                                 &result.sums, scratch.data());
  return result;
}

TEST(MetricsTest, RowsWithoutLabelArePassedOverEvenWhenTheyHoldNan) {
  const Result with = entropy(3, {1, 2, 3, kNan, kNan, kNan, 0, 1, 0}, {2, -1, 1});
  const Result without = entropy(3, {1, 2, 3, 0, 1, 0}, {2, 1});
  EXPECT_EQ(with.sums.count, 2);
  EXPECT_EQ(with.sums.top1, 2);
  EXPECT_EQ(with.sums.not_finite, 0);
  EXPECT_EQ(with.sums.loss, without.sums.loss);
  EXPECT_GT(with.sums.loss, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(with.dlogits[i], without.dlogits[i]);
    EXPECT_EQ(with.dlogits[3 + i], 0);
    EXPECT_EQ(with.dlogits[6 + i], without.dlogits[3 + i]);
  }
}

TEST(MetricsTest, NoRowWithLabelChangesNothing) {
  const Result result = entropy(2, {kNan, kNan, kNan, kNan}, {-1, -1}, MetricSums{1.5, 4, 3, 2, 1});
  EXPECT_EQ(result.sums.loss, 1.5);
  EXPECT_EQ(result.sums.count, 4);
  EXPECT_EQ(result.sums.top1, 3);
  EXPECT_EQ(result.sums.top5, 2);
  EXPECT_EQ(result.sums.not_finite, 1);
  EXPECT_EQ(result.dlogits, std::vector<float>(4, 0.0F));
}

TEST(MetricsTest, OfEqualLogitsTheLowerClassComesFirst) {
  EXPECT_EQ(entropy(2, {1, 1}, {0}).sums.top1, 1);
  EXPECT_EQ(entropy(2, {1, 1}, {1}).sums.top1, 0);
  const std::vector<float> equal(7, 0.5F);
  for (std::int32_t label = 0; label < 7; ++label) {
    EXPECT_EQ(entropy(7, equal, {label}).sums.top5, label < 5 ? 1 : 0) << label;
  }
}

TEST(MetricsTest, WithFewerThanFiveClassesEveryLabelIsAmongTheFive) {
  for (std::int64_t classes = 1; classes <= 5; ++classes) {
    std::vector<float> falling;
    for (std::int64_t k = 0; k < classes; ++k) falling.push_back(static_cast<float>(-k));
    const Result last = entropy(classes, falling, {static_cast<std::int32_t>(classes - 1)});
    EXPECT_EQ(last.sums.top5, 1) << classes;
    EXPECT_EQ(last.sums.top1, classes == 1 ? 1 : 0) << classes;
  }
}

TEST(MetricsTest, LossThatIsNotFiniteIsCounted) {
  EXPECT_EQ(entropy(2, {kNan, 0, 1, 0}, {1, 0}).sums.not_finite, 1);
  EXPECT_EQ(entropy(2, {kNan, 0}, {0}).sums.top1, 0);
  EXPECT_EQ(entropy(2, {std::numeric_limits<float>::infinity(), 0}, {0}).sums.not_finite, 1);
}

TEST(MetricsTest, LabelThatIsNoClassIsNotFinite) {
  const Result result = entropy(2, {0, 0, 0, 0}, {2, 1});
  EXPECT_EQ(result.sums.count, 2);
  EXPECT_EQ(result.sums.not_finite, 1);
  EXPECT_EQ(result.sums.top1, 0);
  EXPECT_EQ(result.sums.top5, 1);
}

TEST(MetricsTest, LargeLogitsDoNotOverflow) {
  const Result result = entropy(2, {30000, 29999}, {1});
  EXPECT_NEAR(result.sums.loss, 1.3132616875, 1e-6);
  EXPECT_EQ(result.sums.not_finite, 0);
}

TEST(MetricsTest, SumsAreDouble) {
  // A float would lose the second loss beside the first sum.
  const Result result = entropy(2, {0, 0}, {0}, MetricSums{1e9, 0, 0, 0, 0});
  EXPECT_NEAR(result.sums.loss - 1e9, 0.69314718, 1e-6);
}

}  // namespace
}  // namespace penstock::trainer
