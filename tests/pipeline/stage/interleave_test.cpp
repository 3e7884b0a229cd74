// interleave: several ranges open at once, taken from in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include <penstock/pipeline/draw.h>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

/// Each parent `times` over.
Pipeline repeated(std::int64_t times, Interleave options) {
  return numbers(9).interleave(
      [times](const Sample& parent) { return std::vector<Sample>(static_cast<std::size_t>(times), parent); }, options);
}

/// v becomes v samples: 10 v, 10 v + 1, ...
Pipeline expanded(Interleave options) {
  return numbers(9).interleave(
      [](const Sample& parent) {
        std::vector<Sample> all;
        for (std::int64_t i = 0; i < number_of(parent); ++i) all.push_back(number_sample(10 * number_of(parent) + i));
        return all;
      },
      options);
}

/// The elements 1 to 5.
ListOperator::Items one_to_five() {
  std::vector<engine::Element> all;
  for (std::int64_t i = 1; i <= 5; ++i) all.push_back(number_element(i, static_cast<std::uint64_t>(i)));
  return ListOperator::items(std::move(all));
}

TEST(InterleaveTest, HasTheOrderOfTfDatasDocumentation) {
  EXPECT_EQ(shown(last_stage(repeated(6, {.cycle_length = 2, .block_length = 4}), one_to_five())),
            "1 1 1 1 2 2 2 2 1 1 2 2 3 3 3 3 4 4 4 4 3 3 4 4 5 5 5 5 5 5");
}

TEST(InterleaveTest, TakesTurnsAndFillsPlacesThatAreFree) {
  EXPECT_EQ(shown(last_stage(expanded({.cycle_length = 2}), list("01234"))), "10 20 21 30 31 40 32 41 42 43");
  EXPECT_EQ(shown(last_stage(expanded({.cycle_length = 3, .block_length = 2}), list("01234"))),
            "10 20 21 30 31 40 41 32 42 43");
  EXPECT_EQ(shown(last_stage(expanded({}), list(""))), "");
  EXPECT_EQ(shown(last_stage(expanded({}), list("0"))), "");
}

TEST(InterleaveTest, WithOnePlaceItIsFlatMap) {
  for (const std::size_t block : {1U, 2U, 100U}) {
    EXPECT_EQ(shown(last_stage(expanded({.cycle_length = 1, .block_length = block}), list("!1~3!"))),
              "! 10 ~ 30 31 32 !");
  }
}

TEST(InterleaveTest, AnErrorOfTheInputIsARangeOfOne) {
  const ListOperator::Items items = list("!!34");
  const auto got = run(last_stage(repeated(2, {.cycle_length = 3}), items));
  EXPECT_EQ(shown(got), "! ! 2 2 3 3");
  EXPECT_EQ(text(got[1]), text((*items)[1]));
}

TEST(InterleaveTest, SkippedPassAtOnceAndCountNowhere) {
  EXPECT_EQ(shown(last_stage(repeated(2, {.cycle_length = 2}), list("~1~~4"))), "~ 1 ~ ~ 4 1 4");
}

TEST(InterleaveTest, ChildrenHaveTheirOwnLineageAndTheParentsOrigin) {
  const auto got = run(last_stage(repeated(2, {.cycle_length = 2}), list("01")));
  ASSERT_EQ(shown(got), "0 1 0 1");
  EXPECT_EQ(got[3].lineage, mix_lineage(number_element(1, 1).lineage, 1));
  EXPECT_EQ(got[3].origins, (std::vector<Origin>{{0, 1}}));
}

TEST(InterleaveTest, FunctionsAndRangesThatThrowAreErrorsInPlace) {
  const Pipeline pipeline = numbers(9).interleave(
      [](const Sample& parent) {
        if (number_of(parent) == 0) throw std::runtime_error("no range");
        return SampleRange([parent, given = false]() mutable -> std::optional<Sample> {
          if (given) throw 5L;
          given = true;
          return parent;
        });
      },
      {.cycle_length = 2});
  const auto got = run(last_stage(pipeline, list("012")));
  EXPECT_EQ(shown(got), "! 1 ! 2 !");
  EXPECT_EQ(error_text(got[0]), "interleave: no range");
  EXPECT_THROW(std::rethrow_exception(got[2].failure->error), long);
  EXPECT_EQ(shown(run(skipping(last_stage(pipeline, list("012"))))), "~ 1 2 ~ ~");
}

TEST(InterleaveTest, KeepsTheParentsOfOpenRanges) {
  StreamFixture fixture;
  const auto root = last_stage(repeated(2, {.cycle_length = 3}), list("0123"))(fixture.context, {});
  root->start({});
  engine::Element element;
  std::vector<std::uint64_t> kept;
  while (root->next(element) == engine::Pull::kElement) kept.push_back(fixture.context.kept->used());
  EXPECT_EQ(kept, (std::vector<std::uint64_t>{8, 16, 24, 24, 24, 24, 8, 8}));
  EXPECT_EQ(fixture.context.kept->used(), 0U);
  root->start({});
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  root->start({});
  EXPECT_EQ(fixture.context.kept->used(), 0U);
}

TEST(InterleaveTest, MoreParentsThanMayBeKeptEndTheStream) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 1000}, 8, 20);
  const auto root = last_stage(repeated(2, {.cycle_length = 3}), list("0123"))(fixture.context, {});
  root->start({});
  engine::Element element;
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  try {
    static_cast<void>(root->next(element));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "interleave: the stages of the pipeline would keep 24 bytes of samples, the most allowed is 20 "
                 "(LoaderOptions::kept_bytes)");
  }
}

TEST(InterleaveTest, ChecksItsArgumentsAndSaysItsText) {
  EXPECT_EQ(refusal([] { static_cast<void>(repeated(1, {.cycle_length = 0})); }),
            "interleave: a cycle_length of 0; at least 1 is needed");
  EXPECT_EQ(refusal([] { static_cast<void>(repeated(1, {.block_length = 0})); }),
            "interleave: a block_length of 0; at least 1 is needed");
  EXPECT_EQ(refusal([] {
              static_cast<void>(numbers(1).interleave(std::function<SampleRange(const Sample&)>(), {}, Outputs{}));
            }),
            "interleave: a stage without a function");
  const auto stage = std::get<std::shared_ptr<const StreamStage>>(repeated(1, {4, 2}).plan().stages.back());
  EXPECT_EQ(stage->text, "interleave(cycle 4, block 2)");
  EXPECT_TRUE(stage->keeps_elements);
  EXPECT_FALSE(repeated(1, {}).size().has_value());
}

TEST(InterleaveTest, RefusesTheStateOfAnotherPlan) {
  StreamFixture fixture;
  const auto wide = last_stage(repeated(2, {.cycle_length = 3}), list("0123"))(fixture.context, {});
  wide->start({});
  engine::Element element;
  ASSERT_EQ(wide->next(element), engine::Pull::kElement);
  ASSERT_EQ(wide->next(element), engine::Pull::kElement);
  Cursor cursor;
  wide->save(cursor);
  engine::CursorReader reader(cursor);
  const auto narrow = last_stage(repeated(2, {.cycle_length = 1}), list("0123"))(fixture.context, {});
  EXPECT_EQ(refusal([&] { narrow->restore({}, reader); }), "interleave: the state is that of another plan");
}

TEST(InterleaveTest, IsLawful) {
  for (const ListOperator::Items& items : hard_lists()) {
    expect_lawful(last_stage(expanded({.cycle_length = 1, .block_length = 2}), items));
    expect_lawful(last_stage(expanded({.cycle_length = 2, .block_length = 1}), items), {1, 9, true});
    expect_lawful(last_stage(repeated(3, {.cycle_length = 3, .block_length = 2}), items));
    expect_lawful(last_stage(repeated(2, {}), items));
  }
}

}  // namespace
}  // namespace penstock
