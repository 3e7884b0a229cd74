// shard over a stream, and equal parts by arithmetic.
#include <gtest/gtest.h>

#include <penstock/pipeline/order/order.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator part(std::uint64_t rank, std::uint64_t world, UnevenShards uneven, ListOperator::Items items) {
  return last_stage(numbers(1).shard(rank, world, uneven), items);
}

TEST(ShardTest, GivesEveryWorldthElement) {
  const auto items = list("0123456");
  EXPECT_EQ(shown(part(0, 3, UnevenShards::kKeep, items)), "0 3 6");
  EXPECT_EQ(shown(part(1, 3, UnevenShards::kKeep, items)), "1 4");
  EXPECT_EQ(shown(part(2, 3, UnevenShards::kKeep, items)), "2 5");
  EXPECT_EQ(shown(part(0, 1, UnevenShards::kKeep, items)), "0 1 2 3 4 5 6");
}

TEST(ShardTest, ErrorsAreCountedAndSkippedOnesAreNot) {
  EXPECT_EQ(shown(part(1, 2, UnevenShards::kKeep, list("0!2~4!6"))), "! ~ 4 6");
  EXPECT_EQ(shown(part(0, 2, UnevenShards::kKeep, list("0!2~4!6"))), "0 2 ~ !");
}

TEST(ShardTest, EqualPartsLeaveOutTheUnevenRest) {
  const auto items = list("0123456");
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(run(part(rank, 3, UnevenShards::kDrop, items)).size(), 2u);
  }
  EXPECT_EQ(shown(part(0, 3, UnevenShards::kDrop, items)), "0 3");
  EXPECT_EQ(shown(part(0, 3, UnevenShards::kDrop, list("01"))), "");
  EXPECT_EQ(shown(part(1, 3, UnevenShards::kDrop, list("0!2~345"))), "! ~ 5");
}

TEST(ShardTest, GivesAnElementOnlyWhenItsGroupIsThere) {
  StreamFixture fixture;
  const auto root = part(0, 3, UnevenShards::kDrop, list("012"))(fixture.context, {.before = {2}});
  root->start({});
  engine::Element element;
  EXPECT_EQ(root->next(element), engine::Pull::kPending);
  EXPECT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(shown(element), "0");
  EXPECT_EQ(fixture.context.kept->used(), 0u);
}

TEST(ShardTest, EqualPartsByArithmeticAreTheSame) {
  for (std::uint64_t count = 0; count < 12; ++count) {
    std::uint64_t total = 0;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      const std::vector<Stage> stages{ShardStage{rank, 4, UnevenShards::kDrop}};
      const order::Order order(count, stages, 0);
      EXPECT_EQ(order.size(), count / 4);
      EXPECT_EQ(order.left_out(), count % 4);
      total += order.size();
      std::vector<order::Placed> placed(order.size());
      order.fill(0, 0, placed);
      std::string text;
      for (const order::Placed& one : placed) text += (text.empty() ? "" : " ") + std::to_string(one.index);
      EXPECT_EQ(text, shown(part(rank, 4, UnevenShards::kDrop, list(std::string("0123456789ab").substr(0, count)))));
    }
    EXPECT_EQ(total + count % 4, count);
  }
  EXPECT_EQ(order::Order(7, std::vector<Stage>{ShardStage{0, 3, UnevenShards::kDrop}, RepeatStage{5}}, 0).left_out(),
            5u);
}

TEST(ShardTest, WaitsForRoom) { expect_waits_for_room(part(1, 2, UnevenShards::kDrop, list("012345")), 8); }

TEST(ShardTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    for (const UnevenShards uneven : {UnevenShards::kKeep, UnevenShards::kDrop}) {
      expect_lawful(part(0, 1, uneven, items));
      expect_lawful(part(1, 3, uneven, items));
    }
  }
}

}  // namespace
}  // namespace penstock
