// batch with a user's function.
#include <gtest/gtest.h>

#include <stdexcept>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

const Outputs kBatch{{"x", DataType::kI64, {Shape::kUnknown}}};

/// All values one after the other, in reverse.
Sample reversed(const std::vector<Sample>& samples) {
  std::vector<std::int64_t> values;
  for (std::size_t i = samples.size(); i-- > 0;) {
    const auto one = samples[i]["x"].view<std::int64_t>().span();
    values.insert(values.end(), one.begin(), one.end());
  }
  return Sample({"x"}, {Tensor::copy_of<std::int64_t>(values, {static_cast<std::int64_t>(values.size())})});
}

using Collate = std::function<Sample(const std::vector<Sample>&)>;

MakeOperator collated(std::size_t size, ListOperator::Items items, Collate collate = reversed,
                      LastBatch last = LastBatch::kKeep) {
  return last_stage(numbers(1).batch(size, std::move(collate), kBatch, last), std::move(items));
}

TEST(CollateBatchTest, GivesWhatTheFunctionMakes) {
  EXPECT_EQ(shown(collated(3, list("01234"))), "[2 1 0] [4 3]");
  EXPECT_EQ(shown(collated(3, list("01234"), reversed, LastBatch::kDrop)), "[2 1 0]");
  EXPECT_EQ(shown(collated(3, list(""))), "");
  EXPECT_EQ(shown(collated(3, list("0!2~45"))), "[0] ! [2] ~ [5 4]");
}

TEST(CollateBatchTest, RowsAreTheSamplesWhenTheirNumberIsTheSame) {
  const auto same = run(collated(2, list("01")));
  EXPECT_EQ(same[0].row_origins, (std::vector<std::vector<Origin>>{{{0, 0}}, {{0, 1}}}));
  const auto other = run(collated(2, lists({2, 1})));
  ASSERT_EQ(shown(other), "[1 2 2]");
  EXPECT_EQ(other[0].row_origins, (std::vector<std::vector<Origin>>(3, {{0, 0}, {0, 1}})));
  EXPECT_EQ(other[0].charge.bytes(), 3 * sizeof(std::int64_t));
}

TEST(CollateBatchTest, WhatItThrowsTakesTheBatchsPlace) {
  const Collate throwing = [](const std::vector<Sample>& samples) -> Sample {
    if (samples.size() == 1) throw 7;
    if (samples[0]["x"].view<std::int64_t>()[0] == 0) throw std::runtime_error("no zeros");
    return reversed(samples);
  };
  const auto got = run(collated(2, list("01234"), throwing));
  EXPECT_EQ(shown(got), "! [3 2] !");
  EXPECT_EQ(error_text(got[0]), "batch: no zeros");
  EXPECT_EQ(got[0].origins, (std::vector<Origin>{{0, 0}, {0, 1}}));
  EXPECT_THROW(std::rethrow_exception(got[2].failure->error), int);
  EXPECT_EQ(shown(skipping(collated(2, list("01234"), throwing))), "~ [3 2] ~");
  expect_lawful(collated(2, list("01234"), throwing));
  expect_lawful(skipping(collated(2, list("0123~4"), throwing)));
}

std::string complaint(Sample batch, Outputs outputs = kBatch) {
  const Pipeline pipeline =
      numbers(1).batch(1, [batch](const std::vector<Sample>&) { return batch; }, std::move(outputs));
  return error_text(run(last_stage(pipeline, list("0")))[0]);
}

TEST(CollateBatchTest, ChecksWhatTheFunctionReturns) {
  const Tensor two = Tensor::copy_of<std::int64_t>(std::vector<std::int64_t>{1, 2}, {2});
  const Tensor one = Tensor::copy_of<float>(std::vector<float>{1}, {1});
  EXPECT_EQ(complaint(Sample({}, {})), "batch: the function returned 0 fields, expected x: i64 [?]");
  EXPECT_EQ(complaint(Sample({"y"}, {two})), "batch: the function's field \"y\" is i64 [2], expected x: i64 [?]");
  EXPECT_EQ(complaint(Sample({"x"}, {one})), "batch: the function's field \"x\" is f32 [1], expected x: i64 [?]");
  EXPECT_EQ(complaint(Sample({"x"}, {Tensor::scalar<std::int64_t>(1)})),
            "batch: the function's field \"x\" is i64 [], expected x: i64 [?]");
  EXPECT_EQ(complaint(Sample({"x", "y"}, {two, one}),
                      {{"x", DataType::kI64, {Shape::kUnknown}}, {"y", DataType::kF32, {Shape::kUnknown}}}),
            "batch: the function's field \"y\" is f32 [1], but field \"x\" is i64 [2]: the leading dimensions differ");
}

TEST(CollateBatchTest, RefusesWhatCannotBeABatch) {
  const auto build = [](std::size_t size, Collate collate, Outputs outputs, LastBatch last = LastBatch::kKeep) {
    return refusal([&] { static_cast<void>(numbers(3).batch(size, collate, outputs, last)); });
  };
  EXPECT_EQ(build(0, reversed, kBatch), "batch: a size of 0; at least 1 is needed");
  EXPECT_EQ(build(1, nullptr, kBatch), "batch: collate is no function");
  EXPECT_EQ(build(1, reversed, {}), "batch: collate needs the fields of a batch; give outputs");
  EXPECT_EQ(build(1, reversed, {{"x", DataType::kI64, {}}}),
            "batch: field \"x\" of outputs is a scalar; the first dimension is the batch");
  EXPECT_EQ(build(1, reversed, {{"x", DataType::kI64, {2}}, {"y", DataType::kI64, {3}}}),
            "batch: the leading dimensions of outputs differ: x: i64 [2], y: i64 [3]");
  EXPECT_EQ(build(2, reversed, kBatch, LastBatch::kPad),
            "batch: collate makes the batch, so it is its part to fill the last one; keep or drop it "
            "(LastBatch::kKeep, LastBatch::kDrop)");
  EXPECT_EQ(build(2, reversed, kBatch, LastBatch::kRefuse),
            "batch: 3 samples an epoch do not divide into batches of 2, 1 would be left; keep or drop them "
            "(LastBatch::kKeep, LastBatch::kDrop)");
}

TEST(CollateBatchTest, IsABatchStage) {
  const Pipeline pipeline = numbers(5).batch(2, reversed, kBatch);
  EXPECT_EQ(pipeline.plan().batch_depth, 1);
  EXPECT_EQ(pipeline.schema().to_string(), "x: i64 []");
  EXPECT_EQ(pipeline.size(), 3u);
}

TEST(CollateBatchTest, WaitsForRoom) { expect_waits_for_room(collated(3, list("012345")), 24); }

TEST(CollateBatchTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    expect_lawful(collated(3, items));
    expect_lawful(collated(3, items, reversed, LastBatch::kDrop));
  }
}

}  // namespace
}  // namespace penstock
