// enumerate: numbers of the samples of an epoch.
#include <gtest/gtest.h>

#include <limits>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

TEST(EnumerateTest, NumbersFromTheFirstOn) {
  EXPECT_EQ(numbers_of(run(last_stage(numbers(9).enumerate(), list("012"))), "index"),
            (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(numbers_of(run(last_stage(numbers(9).enumerate("n", -1), list("012"))), "n"),
            (std::vector<std::int64_t>{-1, 0, 1}));
  EXPECT_TRUE(run(last_stage(numbers(9).enumerate(), list(""))).empty());
}

TEST(EnumerateTest, CountsErrorsAndNoSkipped) {
  EXPECT_EQ(numbers_of(run(last_stage(numbers(9).enumerate(), list("0!2~4"))), "index"),
            (std::vector<std::int64_t>{0, -1, 2, -2, 3}));
}

TEST(EnumerateTest, KeepsTheOtherFieldsAndTheLineage) {
  const ListOperator::Items items = list("012");
  const auto got = run(last_stage(numbers(9).enumerate("n", 5), items));
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[2].sample.names(), (std::vector<std::string>{"x", "n"}));
  EXPECT_EQ(numbers_of(got, "x"), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(got[2].lineage, (*items)[2].lineage);
  EXPECT_EQ(got[2].origins, (*items)[2].origins);
}

TEST(EnumerateTest, CountsEachPassFromTheFirst) {
  StreamFixture fixture;
  const auto root = last_stage(numbers(9).enumerate(), list("01"))(fixture.context, {});
  for (int pass = 0; pass < 2; ++pass) {
    root->start({});
    EXPECT_EQ(numbers_of(drain(fixture, *root), "index"), (std::vector<std::int64_t>{0, 1}));
  }
}

TEST(EnumerateTest, RowsOfABatchHaveTheNumberOfTheBatch) {
  const Pipeline pipeline = numbers(9).batch(2, LastBatch::kKeep).enumerate();
  EXPECT_EQ(pipeline.plan().schemas.back().to_string(), "x: i64 [?], index: i64 [?]");
  EXPECT_EQ(pipeline.schema().to_string(), "x: i64 [], index: i64 []");
  const auto got = run(last_stage(pipeline, lists({2, 3})));
  ASSERT_EQ(got.size(), 2U);
  const auto numbers = got[1].sample["index"].view<std::int64_t>();
  EXPECT_EQ(numbers.shape(), (Shape{3}));
  EXPECT_EQ(std::vector<std::int64_t>(numbers.span().begin(), numbers.span().end()),
            (std::vector<std::int64_t>{1, 1, 1}));
}

TEST(EnumerateTest, SaysItsFieldAndSize) {
  EXPECT_EQ(numbers(7).enumerate("n").schema().to_string(), "x: i64 [], n: i64 []");
  EXPECT_EQ(numbers(7).enumerate().size(), 7U);
  EXPECT_FALSE(numbers(7).filter("x", [](std::int64_t) { return true; }).enumerate().size().has_value());
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(3).enumerate("x")); }),
            "enumerate: there is a field \"x\" already; name another one");
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(3).enumerate("")); }), "enumerate: a field without a name");
}

TEST(EnumerateTest, IsLawful) {
  for (const ListOperator::Items& items : hard_lists()) {
    expect_lawful(last_stage(numbers(9).enumerate(), items));
    expect_lawful(last_stage(numbers(9).enumerate("n", 40), items), {1, 3, true});
  }
}

}  // namespace
}  // namespace penstock
