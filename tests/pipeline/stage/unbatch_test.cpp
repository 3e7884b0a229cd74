// unbatch: rows of batches, windows and plain samples.
#include <gtest/gtest.h>

#include <penstock/pipeline/draw.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator rows(ListOperator::Items items) { return last_stage(list_pipeline().unbatch(), std::move(items)); }

/// unbatch over batch.
MakeOperator batched_rows(std::size_t size, LastBatch last, ListOperator::Items items) {
  const MakeOperator batch = last_stage(numbers(7).batch(size, last), std::move(items));
  const Stage unbatch = numbers(7).batch(size, last).unbatch().plan().stages.back();
  return [batch, unbatch](engine::StreamContext& context, Pending pending) {
    std::vector<std::unique_ptr<engine::Operator>> inputs;
    inputs.push_back(batch(context, std::move(pending)));
    return std::get<std::shared_ptr<const StreamStage>>(unbatch)->make(context, std::move(inputs));
  };
}

TEST(UnbatchTest, GivesEachIndexOfTheLeadingDimension) {
  EXPECT_EQ(shown(rows(lists({2, 0, 1, 3}))), "2 2 1 3 3 3");
  EXPECT_EQ(shown(rows(lists({2, -1, 1}))), "2 2 ! 1");
  EXPECT_EQ(shown(rows(lists({0, 0}))), "");
}

TEST(UnbatchTest, OfBatchesGivesTheRowsBackWithTheirOrigins) {
  for (const LastBatch last : {LastBatch::kKeep, LastBatch::kPad}) {
    const auto got = run(batched_rows(3, last, list("01!3~56")));
    EXPECT_EQ(shown(got), "0 1 ! ~ 3 5 6");
    EXPECT_EQ(got[0].origins, (std::vector<Origin>{{0, 0}}));
    EXPECT_EQ(got[6].origins, (std::vector<Origin>{{0, 6}}));
    EXPECT_EQ(got[6].sample.origin(), (Origin{0, 6}));
  }
}

TEST(UnbatchTest, LineageIsOfTheParentAndTheRow) {
  const auto got = run(rows(lists({2, 3})));
  EXPECT_EQ(got[0].lineage, mix_lineage(list_element(2, 0).lineage, 0));
  EXPECT_EQ(got[1].lineage, mix_lineage(list_element(2, 0).lineage, 1));
  EXPECT_EQ(got[4].lineage, mix_lineage(list_element(3, 1).lineage, 2));
}

ListOperator::Items uneven_parent() {
  std::vector<engine::Element> all;
  all.push_back(list_element(1, 0));
  engine::Element uneven = list_element(2, 1);
  uneven.sample.set("y", Tensor::copy_of<float>(std::vector<float>{1, 2, 3}, {3}));
  all.push_back(std::move(uneven));
  all.push_back(list_element(2, 2));
  return ListOperator::items(std::move(all));
}

TEST(UnbatchTest, AParentWithUnequalFieldsIsAnErrorInItsPlace) {
  const auto got = run(rows(uneven_parent()));
  EXPECT_EQ(shown(got), "1 ! 2 2");
  EXPECT_EQ(error_text(got[1]), "unbatch: field \"y\" is [3], but field \"x\" is [2]: the leading dimensions differ");
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 1}}));
  EXPECT_EQ(shown(skipping(rows(uneven_parent()))), "1 ~ 2 2");
}

TEST(UnbatchTest, ChargesEachRow) {
  StreamFixture fixture;
  const auto root = rows(lists({3}))(fixture.context, {});
  root->start({});
  engine::Element element;
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(element.charge.bytes(), sizeof(std::int64_t));
}

TEST(UnbatchTest, ChecksTheFieldsWhenThePipelineIsBuilt) {
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(3).unbatch()); }),
            "unbatch: field \"x\" is [], which has no leading dimension to take apart");
  const Pipeline unequal = numbers(3).map([](Sample sample) { return sample; },
                                          Outputs{{"a", DataType::kU8, {2, 5}}, {"b", DataType::kU8, {3}}});
  EXPECT_EQ(refusal([&] { static_cast<void>(unequal.unbatch()); }),
            "unbatch: field \"b\" is [3], but others have 2 rows: the leading dimensions differ");
  const Pipeline equal = numbers(3).map([](Sample sample) { return sample; },
                                        Outputs{{"a", DataType::kU8, {2, 5}}, {"b", DataType::kU8, {2}}});
  EXPECT_EQ(equal.unbatch().schema().to_string(), "a: u8 [5], b: u8 []");
  EXPECT_EQ(equal.unbatch().size(), 6u);
  EXPECT_EQ(numbers(7).batch(2).unbatch().size(), std::nullopt);
  EXPECT_EQ(numbers(7).batch(2, LastBatch::kDrop).unbatch().size(), 6u);
  EXPECT_EQ(numbers(7).batch(2, LastBatch::kPad).unbatch().size(), std::nullopt);
  EXPECT_EQ(numbers(7).batch(2).unbatch().plan().batch_depth, 0);
}

TEST(UnbatchTest, WaitsForRoom) { expect_waits_for_room(rows(lists({3})), 8); }

TEST(UnbatchTest, IsLawful) {
  for (const auto& items : hard_lists()) expect_lawful(batched_rows(3, LastBatch::kKeep, items));
  expect_lawful(rows(lists({})));
  expect_lawful(rows(lists({2, 0, -1, 1, 0, 3})));
  expect_lawful(rows(uneven_parent()));
  expect_lawful(skipping(rows(uneven_parent())));
}

}  // namespace
}  // namespace penstock
