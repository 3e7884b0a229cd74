// scan: a state from sample to sample.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

/// Gives on the sum of all samples so far; 4 throws.
Scan sums(bool saved = true) {
  Scan scan{.initial = number_sample(100, "sum"), .step = [](const Sample& state, const Sample& sample) {
              if (number_of(sample) == 4) throw std::runtime_error("no four");
              const std::int64_t sum = number_of(state, "sum") + number_of(sample);
              return std::pair(number_sample(sum, "sum"), number_sample(sum));
            }};
  if (saved) {
    scan.save = [](const Sample& state) { return std::to_string(number_of(state, "sum")); };
    scan.restore = [](const std::string& text) { return number_sample(std::stoll(text), "sum"); };
  }
  return scan;
}

TEST(ScanTest, CarriesTheStateFromSampleToSample) {
  EXPECT_EQ(shown(last_stage(numbers(9).scan(sums()), list("0123"))), "100 101 103 106");
  EXPECT_EQ(shown(last_stage(numbers(9).scan(sums()), list("0"))), "100");
  EXPECT_EQ(shown(last_stage(numbers(9).scan(sums()), list(""))), "");
}

TEST(ScanTest, BeginsEachPassWithTheInitialState) {
  StreamFixture fixture;
  const auto root = last_stage(numbers(9).scan(sums()), list("012"))(fixture.context, {});
  for (int pass = 0; pass < 2; ++pass) {
    root->start({});
    EXPECT_EQ(shown(drain(fixture, *root)), "100 101 103");
  }
}

TEST(ScanTest, ErrorsAndSkippedPassAndLeaveTheState) {
  EXPECT_EQ(shown(last_stage(numbers(9).scan(sums()), list("!1~3!"))), "! 101 ~ 104 !");
}

TEST(ScanTest, AStepThatThrowsIsAnErrorAndLeavesTheState) {
  const auto got = run(last_stage(numbers(9).scan(sums()), list("0123456")));
  EXPECT_EQ(shown(got), "100 101 103 106 ! 111 117");
  EXPECT_EQ(error_text(got[4]), "scan: no four");
  EXPECT_EQ(got[4].origins, (std::vector<Origin>{{0, 4}}));
  EXPECT_EQ(shown(run(skipping(last_stage(numbers(9).scan(sums()), list("0123456"))))), "100 101 103 106 ~ 111 117");
}

TEST(ScanTest, KeepsLineageAndOrigins) {
  const auto got = run(last_stage(numbers(9).scan(sums()), list("01")));
  EXPECT_EQ(got[1].lineage, number_element(1, 1).lineage);
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 1}}));
  EXPECT_EQ(got[1].sample.origin(), (Origin{0, 1}));
}

TEST(ScanTest, ASampleOfAnotherSchemaIsAnErrorAndLeavesTheState) {
  Scan scan{.initial = number_sample(0), .step = [](const Sample& state, const Sample& sample) {
              const std::int64_t sum = number_of(state) + number_of(sample);
              return std::pair(
                  number_sample(sum),
                  sum == 1 ? number_sample(sum) : Sample({"y"}, {Tensor::scalar<float>(static_cast<float>(sum))}));
            }};
  const Pipeline pipeline = numbers(9).scan(scan, {{"y", DataType::kF32, {}}});
  EXPECT_EQ(pipeline.schema().to_string(), "y: f32 []");
  const auto got = run(last_stage(pipeline, list("0123")));
  ASSERT_EQ(got.size(), 4U);
  EXPECT_EQ(error_text(got[1]), "scan: the function returned no field \"y\", expected f32 []; it returned \"x\"");
  EXPECT_EQ(got[3].sample["y"].view<float>()[0], 5.0F);
}

TEST(ScanTest, ASampleThatFindsNoRoomIsMadeOnceAndHasNotChangedTheSavedState) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 16}, 8, 8);
  const auto root = last_stage(numbers(9).scan(sums()), list("012"))(fixture.context, {});
  root->start({});
  engine::Element held;
  ASSERT_EQ(root->next(held), engine::Pull::kElement);
  EXPECT_EQ(shown(held), "100");
  engine::Element next;
  ASSERT_EQ(root->next(next), engine::Pull::kPending);
  Cursor cursor;
  root->save(cursor);
  EXPECT_EQ(cursor.texts, (std::vector<std::string>{"100"}));
  held = {};
  ASSERT_EQ(root->next(next), engine::Pull::kElement);
  EXPECT_EQ(shown(next), "101");
  next = {};
  engine::CursorReader reader(cursor);
  root->restore({}, reader);
  EXPECT_EQ(shown(drain_one_by_one(*root)), "101 103");
}

TEST(ScanTest, ItsStateIsKeptMemory) {
  StreamFixture fixture;
  {
    const auto root = last_stage(numbers(9).scan(sums()), list("01"))(fixture.context, {});
    root->start({});
    EXPECT_EQ(fixture.context.kept->used(), 8U);
    static_cast<void>(drain(fixture, *root));
    EXPECT_EQ(fixture.context.kept->used(), 8U);
  }
  EXPECT_EQ(fixture.context.kept->used(), 0U);
}

TEST(ScanTest, WithoutSaveTheCursorNamesTheStage) {
  StreamFixture fixture;
  const auto root = last_stage(numbers(9).scan(sums(false)), list("01"))(fixture.context, {});
  root->start({});
  Cursor cursor;
  root->save(cursor);
  EXPECT_EQ(cursor.unsaved_stage, "scan");
}

TEST(ScanTest, ASaveThatThrowsIsSaidInTheCursor) {
  Scan scan = sums();
  scan.save = [](const Sample&) -> std::string { throw std::runtime_error("disk full"); };
  StreamFixture fixture;
  const auto root = last_stage(numbers(9).scan(scan), list("01"))(fixture.context, {});
  root->start({});
  Cursor cursor;
  root->save(cursor);
  EXPECT_EQ(cursor.unsaved_stage, "scan (its save failed: disk full)");
}

TEST(ScanTest, ChecksItsArguments) {
  Scan half = sums();
  half.restore = nullptr;
  EXPECT_EQ(refusal([&] { static_cast<void>(numbers(1).scan(half)); }),
            "scan: save and restore go together; one of them is missing");
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(1).scan({.initial = {}, .step = nullptr})); }),
            "scan: a stage without a function");
  EXPECT_EQ(numbers(5).scan(sums()).size(), 5U);
}

TEST(ScanTest, IsLawful) {
  for (const ListOperator::Items& items : hard_lists()) {
    expect_lawful(last_stage(numbers(9).scan(sums()), items));
    expect_lawful(last_stage(numbers(9).scan(sums(false)), items), {1, 9, true});
    expect_lawful(skipping(last_stage(numbers(9).scan(sums()), items)));
  }
  expect_lawful(last_stage(numbers(9).scan(sums()), list(std::string(80, '1'))));
}

}  // namespace
}  // namespace penstock
