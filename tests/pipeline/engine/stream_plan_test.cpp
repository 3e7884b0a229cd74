// Plans as trees of operators: equal to flat plans where both can run, and refused where neither can.
#include <penstock/pipeline/engine/stream_plan.h>

#include <gtest/gtest.h>

#include <algorithm>

#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/loader.h>

#include "../../support/operator_support.h"
#include "../../support/pipeline_support.h"

namespace penstock::engine {
namespace {

using test::drain;
using test::KeepAllStore;
using test::numbers;
using test::numbers_of;
using test::StreamFixture;

using Values = std::vector<std::int64_t>;

Values stream_values(const Pipeline& pipeline, std::uint64_t epoch) {
  StreamFixture fixture;
  std::unique_ptr<Operator> root = make_operators(pipeline.plan(), fixture.context, true);
  root->start({.epoch = epoch});
  Values all = numbers_of(drain(fixture, *root));
  fixture.drop(std::move(root));
  return all;
}

template <class F>
std::string refusal(F function) {
  try {
    function();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

std::int64_t with_draw(std::int64_t x, Draw& draw) { return x * 1000 + static_cast<std::int64_t>(draw.below(1000)); }

TEST(StreamPlanTest, FlatPlansGiveTheVerySameSamples) {
  const std::vector<Pipeline> plans{
      numbers(37),
      numbers(37).shuffle().map("x", with_draw),
      numbers(10).shuffle({.seed = 5}).repeat(3).map("x", with_draw).shuffle().take(25).map("x", with_draw),
      numbers(50).map("x", with_draw).skip(3).shard(1, 3).repeat(2).prefetch(2).map("x", with_draw),
      numbers(20)
          .shuffle()
          .map("x", [](std::int64_t x) { return x + 1; })
          .cache(std::make_shared<KeepAllStore>())
          .repeat(2)
          .map("x", with_draw),
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Pipeline batched = plans[i].batch(4);
    const Runtime runtime({.threads = 2, .budget_bytes = 64 << 20});
    Loader loader(runtime, batched, {.epoch_count = 2, .seed = 1, .max_sample_bytes = 1 << 20});
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      Values flat;
      for (const Batch& batch : loader.epoch()) {
        const Values more = test::values(batch);
        flat.insert(flat.end(), more.begin(), more.end());
      }
      EXPECT_FALSE(flat.empty());
      EXPECT_EQ(stream_values(batched, epoch), flat) << "plan " << i << ", epoch " << epoch;
    }
  }
}

TEST(StreamPlanTest, StagesAfterAFilterCountWhatIsLeft) {
  const Pipeline odd = numbers(30).filter("x", [](std::int64_t x) { return x % 20 != 0; });
  EXPECT_EQ(stream_values(odd.take(3), 0), (Values{10, 30, 50}));
  EXPECT_EQ(stream_values(odd.skip(12).map("x", [](std::int64_t x) { return -x; }), 0), (Values{-250, -270, -290}));
  EXPECT_EQ(stream_values(odd.shard(1, 5), 0), (Values{30, 130, 230}));
  EXPECT_EQ(stream_values(numbers(4).repeat(2).filter("x", [](std::int64_t x) { return x > 10; }), 0),
            (Values{20, 30, 20, 30}));
}

TEST(StreamPlanTest, PassesOfAnOuterRepeatAreShuffledDifferently) {
  const Pipeline twice = numbers(40).shuffle().filter("x", [](std::int64_t x) { return x >= 0; }).repeat(2);
  const Values all = stream_values(twice, 0);
  ASSERT_EQ(all.size(), 80U);
  Values first(all.begin(), all.begin() + 40);
  Values second(all.begin() + 40, all.end());
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.front(), 0);
  EXPECT_EQ(first.back(), 390);
}

TEST(StreamPlanTest, RefusesReplaceWhereSamplesAreNotChosenByArithmetic) {
  const auto with_replace = [](const Pipeline& pipeline) {
    return pipeline.batch(2).on_error({.action = OnError::kReplace});
  };
  EXPECT_EQ(
      refusal([&] {
        StreamFixture fixture;
        make_operators(with_replace(numbers(3).filter("x", [](std::int64_t) { return true; })).plan(), fixture.context,
                       true);
      }),
      "on_error: replace needs a plan whose samples are chosen by arithmetic; this one has a filter(x); use fail or "
      "skip");
}

TEST(StreamPlanTest, RefusesACacheOfWhatHasNoIdentity) {
  Plan plan = numbers(3).plan();
  // As a stage could be put together by hand: pipelines refuse it earlier.
  plan.stages = {BatchStage{2, LastBatch::kKeep}, CacheStage{std::make_shared<KeepAllStore>()}};
  plan.schemas = {plan.schemas.front(), plan.schemas.front(), plan.schemas.front()};
  EXPECT_EQ(
      refusal([&] {
        StreamFixture fixture;
        make_operators(plan, fixture.context, true);
      }),
      "cache: after \"batch\" an element has no identity to keep it by: it is not one sample of one source with the "
      "same maps over it; move the cache before");
}

TEST(StreamPlanTest, RefusesABudgetBelowTheGuaranteedShares) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 1000}, 999, 0);
  const Pipeline pipeline = numbers(3);
  const std::string text = refusal([&] { make_operators(pipeline.plan(), fixture.context, true); });
  EXPECT_NE(text.find("one sample from read, 8"), std::string::npos) << text;
  EXPECT_NE(text.find("1000"), std::string::npos) << text;
}

}  // namespace
}  // namespace penstock::engine
