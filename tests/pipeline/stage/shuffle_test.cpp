// shuffle over a stream: a permutation, near, different from epoch to epoch, and without bias.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator shuffled(std::uint64_t buffer, ListOperator::Items items, std::uint64_t seed = 7) {
  const Stage stage = ShuffleStage{{.seed = seed, .buffer = buffer}};
  return [stage, items](engine::StreamContext& context, Pending pending) {
    context.shuffle_count = 0;  // the same stage, whenever it is made
    return stage::make_operator(std::get<ShuffleStage>(stage), context,
                                std::make_unique<ListOperator>(context, items, std::move(pending)));
  };
}

ListOperator::Items counted(std::size_t count) {
  std::vector<engine::Element> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(number_element(static_cast<std::int64_t>(i), i));
  return ListOperator::items(std::move(all));
}

std::vector<std::int64_t> order(std::uint64_t buffer, std::size_t count, const engine::Pass& pass = {},
                                std::uint64_t seed = 7) {
  return numbers_of(run(shuffled(buffer, counted(count), seed), pass));
}

TEST(ShuffleTest, GivesEveryElementOnceAndNear) {
  for (const std::uint64_t buffer : {2, 3, 10, 64}) {
    for (const std::size_t count : {0, 1, 2, 9, 10, 11, 100}) {
      for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        std::vector<std::int64_t> got = order(buffer, count, {.epoch = epoch});
        ASSERT_EQ(got.size(), count);
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_LT(std::llabs(got[i] - static_cast<std::int64_t>(i)), static_cast<std::int64_t>(buffer));
        }
        std::sort(got.begin(), got.end());
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<std::int64_t>(i));
      }
    }
  }
}

TEST(ShuffleTest, DependsOnSeedEpochAndPass) {
  const auto first = order(32, 100);
  EXPECT_EQ(order(32, 100), first);
  std::set<std::vector<std::int64_t>> all{first};
  all.insert(order(32, 100, {.epoch = 1}));
  all.insert(order(32, 100, {.epoch = 0, .passes = 5, .repeated = true}));
  all.insert(order(32, 100, {}, 8));
  EXPECT_EQ(all.size(), 4u);
}

TEST(ShuffleTest, BordersOfWindowsMoveFromEpochToEpoch) {
  // A border at b: every one of the first b elements comes before all others.
  std::set<std::int64_t> first_borders;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    const auto got = order(4, 40, {.epoch = epoch});
    std::int64_t most = -1;
    for (std::size_t i = 0; i < got.size(); ++i) {
      most = std::max(most, got[i]);
      if (most == static_cast<std::int64_t>(i)) {
        first_borders.insert(most + 1);
        break;
      }
    }
  }
  EXPECT_EQ(first_borders, (std::set<std::int64_t>{1, 2, 3, 4}));
}

TEST(ShuffleTest, TwoShufflesAreDifferentOnes) {
  const auto items = counted(60);
  const MakeOperator once = shuffled(20, items);
  const auto twice = run([&](engine::StreamContext& context, Pending pending) {
    std::unique_ptr<engine::Operator> first = once(context, std::move(pending));
    return stage::make_operator(ShuffleStage{{.seed = 7, .buffer = 20}}, context, std::move(first));
  });
  const auto first = order(20, 60);
  std::vector<std::int64_t> squared;
  for (const std::int64_t at : first) squared.push_back(first[static_cast<std::size_t>(at)]);
  EXPECT_NE(numbers_of(twice), squared);
}

TEST(ShuffleTest, EveryOrderOfAWindowIsEquallyLikely) {
  // A window of three that lies whole in the stream: elements from the first border on.
  std::map<std::vector<std::int64_t>, int> counts;
  constexpr int kRuns = 6000;
  StreamFixture fixture;
  const auto root = shuffled(3, counted(9))(fixture.context, {});
  for (int epoch = 0; epoch < kRuns; ++epoch) {
    root->start({.epoch = static_cast<std::uint64_t>(epoch)});
    const auto got = numbers_of(drain(fixture, *root));
    // Elements 3, 4, 5 stand in one window only where the first is of three; then 3, 4 and 5 fill the places 3 to 5.
    std::vector<std::int64_t> middle(got.begin() + 3, got.begin() + 6);
    std::vector<std::int64_t> sorted = middle;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::int64_t> head(got.begin(), got.begin() + 3);
    std::sort(head.begin(), head.end());
    if (sorted == std::vector<std::int64_t>{3, 4, 5} && head == std::vector<std::int64_t>{0, 1, 2}) {
      // Windows of 1 and 2 in front may give this by chance as well, but only in the same six orders.
      ++counts[middle];
    }
  }
  // Only the epochs whose first window has three elements are free of conditions on the order.
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [middle, count] : counts) EXPECT_GT(count, kRuns / 3 / 6 / 2);
}

TEST(ShuffleTest, PlacesOfAnElementAreUniform) {
  // The first element of the stream, given that the first window has two: first or second place; chi-square with one
  // degree of freedom stays below 10.8 (p = 0.001) over the epochs where the border is at two.
  int first = 0;
  int second = 0;
  StreamFixture fixture;
  const auto root = shuffled(2, counted(4))(fixture.context, {});
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) {
    root->start({.epoch = epoch});
    const auto got = numbers_of(drain(fixture, *root));
    if (got == std::vector<std::int64_t>{0, 1, 3, 2}) ++first;
    if (got == std::vector<std::int64_t>{1, 0, 3, 2}) ++second;
  }
  // {0, 1, 3, 2} arises only from a border at two, and so does {1, 0, 3, 2}.
  const double expected = (first + second) / 2.0;
  EXPECT_GT(expected, 300);
  const double chi = ((first - expected) * (first - expected) + (second - expected) * (second - expected)) / expected;
  EXPECT_LT(chi, 10.8);
}

TEST(ShuffleTest, KeepsBufferElementsAndGivesThemAllBack) {
  StreamFixture fixture;
  const auto root = shuffled(5, counted(40))(fixture.context, {.before = {5}});
  root->start({});
  engine::Element element;
  // Five elements are pulled before the first is given, and one for each that is given.
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(fixture.context.kept->used(), 4 * sizeof(std::int64_t));
  EXPECT_EQ(root->next(element), engine::Pull::kPending);
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(fixture.context.kept->used(), 4 * sizeof(std::int64_t));
  EXPECT_EQ(drain(fixture, *root).size(), 38u);
  EXPECT_EQ(fixture.context.kept->used(), 0u);
}

TEST(ShuffleTest, RefusesToKeepMoreThanIsAllowed) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 1 << 20}, 100, 16);
  const auto root = shuffled(5, counted(40))(fixture.context, {});
  root->start({});
  engine::Element element;
  try {
    static_cast<void>(root->next(element));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "shuffle: the stages of the pipeline would keep 24 bytes of samples, the most allowed is 16 "
                 "(LoaderOptions::kept_bytes)");
  }
}

TEST(ShuffleTest, NeedsABufferWhereOrderIsNotFree) {
  const auto build = [](const Pipeline& pipeline, const Shuffle& options) {
    return refusal([&] { static_cast<void>(pipeline.shuffle(options)); });
  };
  const Pipeline some = numbers(4).filter("x", [](std::int64_t x) { return x > 0; });
  EXPECT_EQ(build(some, {}), "shuffle: the number of samples here is not known; give a buffer");
  EXPECT_EQ(build(some, {.buffer = 1}), "shuffle: a buffer of 1 moves nothing; at least 2 are needed");
  EXPECT_EQ(build(some, {.buffer = 2}), "nothing was thrown");
  EXPECT_EQ(build(numbers(4).window({.size = 2}), {}),
            "shuffle: after window samples come one after the other; give a buffer");
  EXPECT_EQ(build(numbers(4).batch(2), {}), "shuffle: after batch samples come one after the other; give a buffer");
  EXPECT_EQ(build(numbers(4).take(3), {.buffer = 10}),
            "shuffle: a buffer of 10 where all samples are permuted exactly; leave the buffer out");
  EXPECT_EQ(build(numbers(4).take(3), {}), "nothing was thrown");
  EXPECT_EQ(build(some, {.buffer = std::uint64_t{1} << 40}),
            "shuffle: a buffer of 1099511627776; at most 4294967296 is possible");
}

TEST(ShuffleTest, WaitsForRoom) { expect_waits_for_room(shuffled(4, list("012345")), 8); }

TEST(ShuffleTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    for (const std::uint64_t buffer : {2, 5, 100}) {
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) expect_lawful(shuffled(buffer, items), {.epoch = epoch});
    }
  }
}

}  // namespace
}  // namespace penstock
