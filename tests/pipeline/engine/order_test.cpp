// The order of an epoch against a plain one that lists every slot.
#include <penstock/pipeline/order/order.h>

#include <algorithm>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>

namespace penstock::order {
namespace {

using testing::ElementsAre;

std::vector<Placed> placed(const Order& order, std::uint64_t epoch = 0) {
  std::vector<Placed> out(order.size());
  order.fill(epoch, 0, out);
  return out;
}

std::vector<std::uint64_t> indices(const Order& order, std::uint64_t epoch = 0) {
  std::vector<std::uint64_t> all;
  for (const Placed& one : placed(order, epoch)) all.push_back(one.index);
  return all;
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> all) {
  std::sort(all.begin(), all.end());
  return all;
}

TEST(OrderTest, SelectsAsAListWould) {
  const std::vector<Stage> stages{SkipStage{2}, TakeStage{7}, ShardStage{1, 3}, RepeatStage{2}, SkipStage{1}};
  // 0..9, skip 2: 2..9, take 7: 2..8, every third from the second: 3 6, twice: 3 6 3 6, skip 1.
  EXPECT_THAT(indices(Order(10, stages, 0)), ElementsAre(6, 3, 6));
}

TEST(OrderTest, EveryCombinationOfThreeStagesEqualsTheListedOne) {
  const std::vector<Stage> choices{TakeStage{5},   SkipStage{3}, ShardStage{0, 2}, ShardStage{1, 2},
                                   RepeatStage{3}, TakeStage{0}, SkipStage{50}};
  for (const Stage& a : choices) {
    for (const Stage& b : choices) {
      for (const Stage& c : choices) {
        std::vector<std::uint64_t> list{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        for (const Stage* stage : {&a, &b, &c}) {
          std::vector<std::uint64_t> next;
          if (const auto* take = std::get_if<TakeStage>(stage)) {
            for (std::size_t i = 0; i < std::min<std::size_t>(take->count, list.size()); ++i) next.push_back(list[i]);
          } else if (const auto* skip = std::get_if<SkipStage>(stage)) {
            for (std::size_t i = skip->count; i < list.size(); ++i) next.push_back(list[i]);
          } else if (const auto* shard = std::get_if<ShardStage>(stage)) {
            for (std::size_t i = shard->rank; i < list.size(); i += shard->world) next.push_back(list[i]);
          } else if (const auto* repeat = std::get_if<RepeatStage>(stage)) {
            for (std::uint64_t pass = 0; pass < repeat->count; ++pass)
              next.insert(next.end(), list.begin(), list.end());
          }
          list = next;
        }
        ASSERT_EQ(indices(Order(10, std::vector<Stage>{a, b, c}, 0)), list);
      }
    }
  }
}

TEST(OrderTest, ShuffleThenRepeatPermutesEachPassDifferently) {
  const std::vector<std::uint64_t> all = indices(Order(16, std::vector<Stage>{ShuffleStage{{7}}, RepeatStage{3}}, 0));
  ASSERT_EQ(all.size(), 48u);
  std::set<std::vector<std::uint64_t>> passes;
  for (std::size_t pass = 0; pass < 3; ++pass) {
    const std::vector<std::uint64_t> one(all.begin() + 16 * pass, all.begin() + 16 * (pass + 1));
    EXPECT_EQ(sorted(one), sorted(indices(Order(16, {}, 0))));
    passes.insert(one);
  }
  EXPECT_EQ(passes.size(), 3u);
}

TEST(OrderTest, RepeatThenShuffleMixesThePasses) {
  const std::vector<std::uint64_t> all = indices(Order(16, std::vector<Stage>{RepeatStage{3}, ShuffleStage{{7}}}, 0));
  ASSERT_EQ(all.size(), 48u);
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(std::count(all.begin(), all.end(), i), 3);
  EXPECT_NE(sorted({all.begin(), all.begin() + 16}), sorted(indices(Order(16, {}, 0))));
}

TEST(OrderTest, EpochsDifferAndTwoShufflesDiffer) {
  const Order order(16, std::vector<Stage>{ShuffleStage{{7}}}, 0);
  EXPECT_NE(indices(order, 0), indices(order, 1));
  EXPECT_NE(indices(order, 1), indices(order, 2));
  EXPECT_EQ(indices(order, 1), indices(Order(16, std::vector<Stage>{ShuffleStage{{7}}}, 123), 1));
  // The second shuffle is another permutation than the first: were they equal, doing it twice would be its square.
  const std::vector<std::uint64_t> once = indices(order, 0);
  std::vector<std::uint64_t> square;
  for (const std::uint64_t slot : once) square.push_back(once[slot]);
  EXPECT_NE(indices(Order(16, std::vector<Stage>{ShuffleStage{{7}}, ShuffleStage{{7}}}, 0)), square);
}

TEST(OrderTest, ShardsOfAShuffleShareOutTheSamples) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const std::vector<std::uint64_t> part =
        indices(Order(5000, std::vector<Stage>{ShuffleStage{{7}}, ShardStage{rank, 3}}, 0));
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(sorted(all), indices(Order(5000, {}, 0)));
}

TEST(OrderTest, LineageIsOfTheSampleAndThePass) {
  const std::vector<Placed> plain = placed(Order(8, {}, 0));
  const std::vector<Placed> shuffled = placed(Order(8, std::vector<Stage>{ShuffleStage{{3}}}, 0));
  for (const Placed& one : shuffled) EXPECT_EQ(one.lineage, plain[one.index].lineage);
  std::set<std::uint64_t> lineages;
  for (const Placed& one : placed(Order(8, std::vector<Stage>{RepeatStage{2}, RepeatStage{2}}, 0)))
    lineages.insert(one.lineage);
  EXPECT_EQ(lineages.size(), 32u);
}

TEST(OrderTest, FillingFromTheMiddleEqualsFillingFromTheStart) {
  const Order order(30, std::vector<Stage>{ShuffleStage{{1}}, RepeatStage{20}, SkipStage{4}, ShuffleStage{{2}}}, 0);
  const std::vector<Placed> all = placed(order, 3);
  for (std::uint64_t slot = 0; slot < order.size(); slot += 7) {
    std::vector<Placed> some(std::min<std::uint64_t>(13, order.size() - slot));
    order.fill(3, slot, some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(some[i].index, all[slot + i].index);
      ASSERT_EQ(some[i].lineage, all[slot + i].lineage);
    }
  }
}

TEST(OrderTest, RefusesMoreThanCanBeCounted) {
  try {
    Order(std::uint64_t{1} << 40, std::vector<Stage>{RepeatStage{std::uint64_t{1} << 40}}, 0);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "repeat: 1099511627776 samples 1099511627776 times are more than can be counted");
  }
}

}  // namespace
}  // namespace penstock::order
