// sample_from: inputs mixed at random.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;
using AtEnd = SampleFrom::AtEnd;

/// Values of input i are 1000 i, 1000 i + 1, ...
MakeOperator mixed(const std::vector<std::string>& texts, const std::vector<double>& weights, SampleFrom options) {
  std::vector<ListOperator::Items> items;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    items.push_back(list_of(texts[i], "x", static_cast<std::int64_t>(i) * 1000, static_cast<std::uint32_t>(i)));
  }
  return first_stage(sample_from(std::vector<Pipeline>(texts.size(), numbers(9)), weights, options), items);
}

std::vector<std::int64_t> values_of(const MakeOperator& make, const engine::Pass& pass = {}) {
  return numbers_of(run(make, pass));
}

std::string long_list(std::size_t count) { return std::string(count, '0'); }

TEST(SampleFromTest, DrawsByTheWeights) {
  const auto got =
      values_of(mixed({long_list(900), long_list(900), long_list(900)}, {1, 2, 5}, {.at_end = AtEnd::kStop}));
  std::array<double, 3> counts{};
  for (std::size_t i = 0; i < 800; ++i) counts[static_cast<std::size_t>(got.at(i) / 1000)] += 1;
  // Chi-square with 2 degrees of freedom: above 13.8 once in a thousand.
  const std::array<double, 3> expected{100, 200, 500};
  double distance = 0;
  for (std::size_t i = 0; i < 3; ++i) distance += std::pow(counts[i] - expected[i], 2) / expected[i];
  EXPECT_LT(distance, 13.8);
}

TEST(SampleFromTest, EachInputKeepsItsOrder) {
  const auto got = values_of(mixed({long_list(50), long_list(50)}, {1, 1}, {}));
  std::array<std::int64_t, 2> next{0, 1000};
  for (const std::int64_t value : got) EXPECT_EQ(value, next[static_cast<std::size_t>(value / 1000)]++);
  EXPECT_EQ(next, (std::array<std::int64_t, 2>{50, 1050})) << "kContinue gives all of all inputs";
}

TEST(SampleFromTest, DependsOnSeedEpochAndPass) {
  const auto of = [](SampleFrom options, const engine::Pass& pass) {
    return values_of(mixed({long_list(40), long_list(40)}, {1, 1}, options), pass);
  };
  std::set<std::vector<std::int64_t>> different;
  different.insert(of({}, {0, 0, false}));
  different.insert(of({}, {1, 0, false}));
  different.insert(of({}, {0, 4, true}));
  different.insert(of({.seed = 99}, {0, 0, false}));
  EXPECT_EQ(different.size(), 4U);
  EXPECT_EQ(of({}, {1, 0, false}), of({}, {1, 0, false}));
  EXPECT_EQ(of({.seed = 1}, {0, 0, false}), of({}, {0, 0, false})) << "the context's seed is 1";
}

TEST(SampleFromTest, TwoInOnePlanDrawDifferently) {
  StreamFixture fixture;
  const MakeOperator make = mixed({long_list(40), long_list(40)}, {1, 1}, {});
  const auto first = make(fixture.context, {});
  const auto second = make(fixture.context, {});
  first->start({});
  second->start({});
  EXPECT_NE(numbers_of(drain(fixture, *first)), numbers_of(drain(fixture, *second)));
}

TEST(SampleFromTest, StopEndsWithTheFirstInputThatEnds) {
  const auto got = values_of(mixed({"012", long_list(500)}, {1, 1}, {.at_end = AtEnd::kStop}));
  std::size_t of_first = 0;
  for (const std::int64_t value : got) of_first += value < 1000 ? 1 : 0;
  EXPECT_EQ(of_first, 3U);
  EXPECT_LT(got.size(), 100U);
  EXPECT_EQ(values_of(mixed({"", ""}, {1, 1}, {.at_end = AtEnd::kStop})).size(), 0U);
}

TEST(SampleFromTest, ContinueGoesOnWithTheOthers) {
  auto got = values_of(mixed({"", "01", long_list(30)}, {5, 1, 1}, {}));
  EXPECT_EQ(got.size(), 32U);
  EXPECT_EQ(std::set<std::int64_t>(got.begin(), got.end()).size(), 32U);
}

TEST(SampleFromTest, RepeatBeginsAnInputAgainWithItsNextPassUntilEachHasEnded) {
  const auto got = run(mixed({"01", long_list(40)}, {1, 1}, {.at_end = AtEnd::kRepeat}));
  std::size_t of_second = 0;
  std::vector<const engine::Element*> firsts;
  for (const engine::Element& element : got) {
    if (number_of(element.sample) >= 1000) {
      ++of_second;
    } else {
      firsts.push_back(&element);
    }
  }
  EXPECT_EQ(of_second, 40U) << "the epoch ends when the longer one has ended once";
  ASSERT_GT(firsts.size(), 20U);
  std::set<std::uint64_t> lineages;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    EXPECT_EQ(number_of(firsts[i]->sample), static_cast<std::int64_t>(i % 2));
    lineages.insert(firsts[i]->lineage);
  }
  EXPECT_EQ(lineages.size(), firsts.size()) << "each pass has lineages of its own";
}

TEST(SampleFromTest, RepeatDoesNotStandStillForAnInputThatGivesNothing) {
  EXPECT_EQ(values_of(mixed({"", "01"}, {1000, 1}, {.at_end = AtEnd::kRepeat})),
            (std::vector<std::int64_t>{1000, 1001}));
  EXPECT_TRUE(values_of(mixed({"", ""}, {1, 1}, {.at_end = AtEnd::kRepeat})).empty());
  const auto got = values_of(mixed({"~~", "01"}, {1000, 1}, {.at_end = AtEnd::kRepeat}));
  EXPECT_EQ(got, (std::vector<std::int64_t>{-2, -2, 1000, 1001})) << "all of the first are skipped";
}

TEST(SampleFromTest, ErrorsCountAndSkippedDoNot) {
  // A choice is used up by an element that counts.
  const auto plain = values_of(mixed({long_list(20), long_list(20)}, {1, 1}, {}));
  const auto with_errors = values_of(mixed({std::string(20, '!'), long_list(20)}, {1, 1}, {}));
  auto with_skipped = values_of(mixed({"~~" + long_list(20), long_list(20)}, {1, 1}, {}));
  std::erase(with_skipped, -2);
  ASSERT_EQ(plain.size(), 40U);
  ASSERT_EQ(with_errors.size(), 40U);
  ASSERT_EQ(with_skipped.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(with_errors[i], plain[i] < 1000 ? -1 : plain[i]);
    EXPECT_EQ(with_skipped[i], plain[i] < 1000 ? plain[i] + 2 : plain[i]);
  }
}

TEST(SampleFromTest, ChecksItsInputsAndWeights) {
  const auto refused = [](std::size_t inputs, std::vector<double> weights) {
    return refusal([&] { static_cast<void>(sample_from(std::vector<Pipeline>(inputs, numbers(2)), weights)); });
  };
  EXPECT_EQ(refused(0, {}), "sample_from: 0 inputs; at least 1 is needed");
  EXPECT_EQ(refused(2, {1}), "sample_from: 1 weights for 2 inputs; one each is needed");
  EXPECT_EQ(refused(2, {1, 0}), "sample_from: weight 1 is 0.000000; weights are finite and above 0");
  EXPECT_EQ(refused(2, {-1, 1}), "sample_from: weight 0 is -1.000000; weights are finite and above 0");
  EXPECT_EQ(refused(1, {std::nan("")}), "sample_from: weight 0 is nan; weights are finite and above 0");
  EXPECT_EQ(refused(1, {std::numeric_limits<double>::infinity()}),
            "sample_from: weight 0 is inf; weights are finite and above 0");
  EXPECT_EQ(refused(2, {1e308, 1e308}), "sample_from: the sum of the weights is not finite");
  EXPECT_EQ(refusal([] { static_cast<void>(sample_from({numbers(2), named_numbers(2, "y")}, {1, 1})); }),
            "sample_from: field \"x\" of input 0 is not there in input 1 (y: i64 [])");
  EXPECT_EQ(refusal([] { static_cast<void>(sample_from({numbers(2), numbers(2).batch(1)}, {1, 1})); }),
            "sample_from: input 1 is batched; say batch after sample_from");
}

TEST(SampleFromTest, SaysItsTextAndKnowsNoSize) {
  const Pipeline pipeline = sample_from({numbers(2), numbers(2)}, {0.25, 3});
  EXPECT_FALSE(pipeline.size());
  const auto stage = std::get<std::shared_ptr<const StreamStage>>(pipeline.plan().stages.front());
  EXPECT_EQ(stage->text, "sample_from(weights 0.25, 3)");
  EXPECT_TRUE(stage->random);
}

TEST(SampleFromTest, IsLawful) {
  for (const AtEnd at_end : {AtEnd::kStop, AtEnd::kContinue, AtEnd::kRepeat}) {
    for (const auto& texts : std::vector<std::vector<std::string>>{
             {"", ""}, {"012", ""}, {"01", "0123456789abc"}, {"!~2~", "~!2!45~", "0"}, {"~", "01"}}) {
      const std::vector<double> weights(texts.size(), 1.0);
      expect_lawful(alone(mixed(texts, weights, {.at_end = at_end})));
      expect_lawful(alone(mixed(texts, weights, {.seed = 5, .at_end = at_end})), {1, 9, true});
    }
  }
}

}  // namespace
}  // namespace penstock
