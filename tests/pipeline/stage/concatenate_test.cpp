// concatenate: one input after the other.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator joined(const std::vector<std::string>& texts) {
  std::vector<ListOperator::Items> items;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    items.push_back(list_of(texts[i], "x", static_cast<std::int64_t>(i) * 100, static_cast<std::uint32_t>(i)));
  }
  return first_stage(concatenate(std::vector<Pipeline>(texts.size(), numbers(9))), items);
}

TEST(ConcatenateTest, GivesAllOfEachInputInTurn) {
  EXPECT_EQ(shown(joined({"012", "01", "0"})), "0 1 2 100 101 200");
  EXPECT_EQ(shown(joined({"", "01", "", "", "0", ""})), "100 101 400");
  EXPECT_EQ(shown(joined({"012"})), "0 1 2");
  EXPECT_EQ(shown(joined({"", ""})), "");
  EXPECT_EQ(shown(joined({"0!~", "~1!"})), "0 ! ~ ~ 101 !");
}

TEST(ConcatenateTest, ElementsPassUnchanged) {
  EXPECT_EQ(text(run(joined({"0", "01"}))[2]), text((*list_of("01", "x", 100, 1))[1]));
}

/// {"a": f32 [2], "b": i64 []} in the order that `reversed` says.
Pipeline two_fields(std::int64_t width, bool reversed) {
  Outputs outputs{{"a", DataType::kF32, {width}}, {"b", DataType::kI64, {}}};
  if (reversed) std::swap(outputs[0], outputs[1]);
  return numbers(4).map([](Sample sample) { return sample; }, outputs);
}

TEST(ConcatenateTest, FieldsHaveTheFirstOrderAndUnknownDimensionsWhereTheyDiffer) {
  const Pipeline pipeline = concatenate({two_fields(2, false), two_fields(3, true)});
  EXPECT_EQ(pipeline.schema().to_string(), "a: f32 [?], b: i64 []");
  std::vector<engine::Element> first;
  first.push_back(number_element(0, 0));
  first.back().sample =
      Sample({"a", "b"}, {Tensor::copy_of<float>(std::vector<float>{1, 2}, {2}), Tensor::scalar<std::int64_t>(3)});
  std::vector<engine::Element> second;
  second.push_back(number_element(0, 1));
  second.back().sample =
      Sample({"b", "a"}, {Tensor::scalar<std::int64_t>(4), Tensor::copy_of<float>(std::vector<float>{5, 6, 7}, {3})});
  const auto got =
      run(first_stage(pipeline, {ListOperator::items(std::move(first)), ListOperator::items(std::move(second))}));
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1].sample.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(got[1].sample.tensors()[0].view<float>()[2], 7);
  EXPECT_EQ(got[1].sample.tensors()[1].view<std::int64_t>()[0], 4);
}

TEST(ConcatenateTest, RefusesInputsThatDoNotFit) {
  EXPECT_EQ(refusal([] { static_cast<void>(concatenate({})); }), "concatenate: 0 inputs; at least 1 is needed");
  EXPECT_EQ(refusal([] { static_cast<void>(concatenate({numbers(3), named_numbers(3, "y")})); }),
            "concatenate: field \"x\" of input 0 is not there in input 1 (y: i64 [])");
  EXPECT_EQ(refusal([] { static_cast<void>(concatenate({numbers(3), numbers(3).enumerate("n")})); }),
            "concatenate: field \"n\" of input 1 is not there in input 0 (x: i64 [])");
  EXPECT_EQ(refusal([] { static_cast<void>(concatenate({numbers(3), list_pipeline()})); }),
            "concatenate: field \"x\" is i64 [] in input 0 and i64 [?] in input 1");
  EXPECT_EQ(refusal([] {
              static_cast<void>(
                  concatenate({numbers(3), numbers(3).map("x", [](std::int64_t x) { return static_cast<float>(x); })}));
            }),
            "concatenate: field \"x\" is i64 [] in input 0 and f32 [] in input 1");
  EXPECT_EQ(refusal([] { static_cast<void>(concatenate({numbers(3).batch(2)})); }),
            "concatenate: input 0 is batched; say batch after concatenate");
}

TEST(ConcatenateTest, HasTheSumOfTheSizes) {
  EXPECT_EQ(concatenate({numbers(3), numbers(4)}).size(), 7U);
  EXPECT_FALSE(concatenate({numbers(3), numbers(4).filter("x", [](std::int64_t) { return true; })}).size());
}

TEST(ConcatenateTest, RefusesTheStateOfAnotherPlan) {
  StreamFixture fixture;
  const auto root = joined({"0", "0"})(fixture.context, {});
  Cursor cursor;
  cursor.numbers = {3};
  engine::CursorReader reader(cursor);
  EXPECT_EQ(refusal([&] { root->restore({}, reader); }), "concatenate: the state is that of another plan");
}

TEST(ConcatenateTest, IsLawful) {
  for (const auto& texts :
       std::vector<std::vector<std::string>>{{""}, {"0"}, {"", ""}, {"01", "", "!~2"}, {"~", "!", "012"}}) {
    expect_lawful(joined(texts));
    expect_lawful(joined(texts), {1, 9, true});
  }
}

}  // namespace
}  // namespace penstock
