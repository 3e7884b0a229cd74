// batch as a stage in the middle: batches as elements.
#include <gtest/gtest.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator batches(std::size_t size, LastBatch last, ListOperator::Items items) {
  return last_stage(numbers(1).batch(size, last), std::move(items));
}

TEST(BatchTest, StacksRowsAndEndsAsItIsTold) {
  const auto items = list("01234");
  EXPECT_EQ(shown(batches(2, LastBatch::kKeep, items)), "[0 1] [2 3] [4]");
  EXPECT_EQ(shown(batches(2, LastBatch::kDrop, items)), "[0 1] [2 3]");
  EXPECT_EQ(shown(batches(2, LastBatch::kPad, items)), "[0 1] [2 3] [4 0]");
  EXPECT_EQ(shown(batches(9, LastBatch::kKeep, items)), "[0 1 2 3 4]");
  EXPECT_EQ(shown(batches(9, LastBatch::kDrop, items)), "");
  EXPECT_EQ(shown(batches(1, LastBatch::kKeep, list("0"))), "[0]");
  EXPECT_EQ(shown(batches(3, LastBatch::kKeep, list(""))), "");
}

TEST(BatchTest, IsCutAtErrorsAndKeepsItsBorders) {
  EXPECT_EQ(shown(batches(4, LastBatch::kKeep, list("01!34567!9"))), "[0 1] ! [3] [4 5 6 7] ! [9]");
  EXPECT_EQ(shown(batches(2, LastBatch::kKeep, list("!!2!"))), "! ! [2] !");
  EXPECT_EQ(shown(batches(2, LastBatch::kDrop, list("0!2!4"))), "[0] ! [2] !");
  // What is dropped at the end is dropped with its errors.
  EXPECT_EQ(shown(batches(3, LastBatch::kDrop, list("012!"))), "[0 1 2]");
  EXPECT_EQ(shown(batches(3, LastBatch::kPad, list("0!2"))), "[0 0 0] ! [2 0 0]");
}

TEST(BatchTest, SkippedOnesTakeNoPlace) {
  EXPECT_EQ(shown(batches(2, LastBatch::kKeep, list("0~2~~5"))), "~ [0 2] ~ ~ [5]");
}

TEST(BatchTest, KnowsWhereEachRowCameFrom) {
  const auto got = run(batches(2, LastBatch::kPad, list("012")));
  EXPECT_EQ(got[0].origins, (std::vector<Origin>{{0, 0}, {0, 1}}));
  EXPECT_EQ(got[0].row_origins, (std::vector<std::vector<Origin>>{{{0, 0}}, {{0, 1}}}));
  EXPECT_EQ(got[1].row_origins, (std::vector<std::vector<Origin>>{{{0, 2}}}));
  EXPECT_NE(got[0].lineage, got[1].lineage);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got[1].sample["x"].data()) % 64, 0u);
  EXPECT_EQ(got[1].sample.origin(), (Origin{0, 2}));
}

TEST(BatchTest, KeepsNothingOnceTheBatchIsGiven) {
  StreamFixture fixture;
  const auto root = batches(3, LastBatch::kKeep, list("0123"))(fixture.context, {});
  root->start({});
  engine::Element element;
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(fixture.context.kept->used(), 0u);
  EXPECT_EQ(element.charge.bytes(), 3 * sizeof(std::int64_t));
}

TEST(BatchTest, ABatchThatIsTooLargeIsAnErrorInItsPlace) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 1 << 20}, 20, 1 << 16);
  const auto root = batches(3, LastBatch::kKeep, list("0123"))(fixture.context, {});
  root->start({});
  const auto got = drain(fixture, *root);
  EXPECT_EQ(shown(got), "! [3]");
  EXPECT_EQ(got[0].failure->stage, "batch");
  EXPECT_EQ(got[0].failure->origin, (Origin{0, 0}));
}

TEST(BatchTest, RefusesRowsThatMayNotFillBatches) {
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(7).batch(3, LastBatch::kRefuse)); }),
            "batch: 7 samples an epoch do not divide into batches of 3, 1 would be left; keep or drop them "
            "(LastBatch::kKeep, LastBatch::kDrop)");
  EXPECT_EQ(
      refusal([] {
        static_cast<void>(numbers(6).filter("x", [](std::int64_t x) { return x > 0; }).batch(3, LastBatch::kRefuse));
      }),
      "batch: the number of samples here is not known, so some may be left that fill no batch; keep or drop "
      "them (LastBatch::kKeep, LastBatch::kDrop)");
  EXPECT_EQ(numbers(6).batch(3, LastBatch::kRefuse).size(), 2u);
}

TEST(BatchTest, BatchesOfBatchesHaveTwoLeadingDimensions) {
  const Pipeline twice = numbers(12).batch(2, LastBatch::kDrop).batch(3, LastBatch::kDrop);
  EXPECT_EQ(twice.plan().schemas.back().to_string(), "x: i64 [3, 2]");
  EXPECT_EQ(twice.schema().to_string(), "x: i64 []");
  EXPECT_EQ(twice.size(), 2u);
}

TEST(BatchTest, WaitsForRoom) { expect_waits_for_room(batches(3, LastBatch::kKeep, list("012345")), 24); }

TEST(BatchTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDrop, LastBatch::kPad}) {
      expect_lawful(batches(1, last, items));
      expect_lawful(batches(4, last, items));
      expect_lawful(batches(100, last, items));
    }
  }
}

}  // namespace
}  // namespace penstock
