// Plans as text, and the warnings.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::numbers;
using testing::ElementsAre;
using testing::IsEmpty;

const auto kPositive = [](std::int64_t x) { return x > 0; };

TEST(DescribeTest, ALineAStageWithFieldsAndNumber) {
  EXPECT_EQ(numbers(10).describe(), "source: x: i64 []; 10 elements\n");
  EXPECT_EQ(numbers(10)
                .shuffle({.seed = 7})
                .shard(0, 3, UnevenShards::kDrop)
                .map("x", [](std::int64_t x) { return static_cast<float>(x); })
                .cache(std::make_shared<test::KeepAllStore>())
                .batch(2, LastBatch::kDrop)
                .prefetch(3)
                .describe(),
            "source: x: i64 []; 10 elements\n"
            "shuffle(seed 7): x: i64 []; 10 elements\n"
            "shard(0 of 3, equal parts): x: i64 []; 3 elements\n"
            "map(x): x: f32 []; 3 elements\n"
            "cache(keeps all): x: f32 []; 3 elements\n"
            "batch(2, drop): x: f32 [2]; 1 element\n"
            "prefetch(3): x: f32 [2]; 1 element\n");
}

TEST(DescribeTest, StreamsAndPolicies) {
  EXPECT_EQ(numbers(10)
                .repeat(2)
                .take(8)
                .skip(1)
                .shard(1, 2)
                .filter("x", kPositive)
                .shuffle({.seed = 1, .buffer = 4})
                .window({.size = 3, .shift = 1, .stride = 2, .last = LastBatch::kKeep})
                .padded_batch(2)
                .unbatch()
                .batch(
                    1, [](const std::vector<Sample>& samples) { return samples[0]; },
                    Outputs{{"x", DataType::kI64, {Shape::kUnknown}}})
                .on_error({.action = OnError::kSkip, .limit = 5})
                .describe(),
            "source: x: i64 []; 10 elements\n"
            "repeat(2): x: i64 []; 20 elements\n"
            "take(8): x: i64 []; 8 elements\n"
            "skip(1): x: i64 []; 7 elements\n"
            "shard(1 of 2): x: i64 []; 3 elements\n"
            "filter(x): x: i64 []; number not known\n"
            "shuffle(seed 1, buffer 4): x: i64 []; number not known\n"
            "window(3, shift 1, stride 2, keep): x: i64 [?]; number not known\n"
            "padded_batch(2): x: i64 [?, ?]; number not known\n"
            "unbatch: x: i64 [?]; number not known\n"
            "batch(1, collate): x: i64 [?]; number not known\n"
            "on_error(skip, at most 5)\n"
            "warning: shuffle after repeat mixes the passes, so that a sample may come again before others have come "
            "once; shuffle before repeat\n");
}

TEST(DescribeTest, BranchesOfJoinsAreIndented) {
  StreamStage join{
      .name = "side_by_side", .text = "", .size = [](const auto& inputs) { return inputs[0]; }, .make = {}};
  const Pipeline joined = Pipeline::beginning(join, {numbers(3), numbers(4).repeat(2).shuffle()},
                                              Schema{{{"a", DataType::kI64, {}}, {"b", DataType::kI64, {}}}});
  EXPECT_EQ(joined.take(2).describe(),
            "  input 1\n"
            "    source: x: i64 []; 3 elements\n"
            "  input 2\n"
            "    source: x: i64 []; 4 elements\n"
            "    repeat(2): x: i64 []; 8 elements\n"
            "    shuffle: x: i64 []; 8 elements\n"
            "side_by_side: a: i64 [], b: i64 []; 3 elements\n"
            "take(2): a: i64 [], b: i64 []; 2 elements\n"
            "warning: input 2: shuffle after repeat mixes the passes, so that a sample may come again before others "
            "have come once; shuffle before repeat\n");
}

TEST(WarningsTest, NoneForPlansAsTheyShouldBe) {
  EXPECT_THAT(numbers(8).shuffle().repeat(2).batch(2).prefetch(1).warnings(), IsEmpty());
  EXPECT_THAT(numbers(8).cache(std::make_shared<test::KeepAllStore>()).shuffle().batch(2).warnings(), IsEmpty());
  EXPECT_THAT(numbers(8).take(4).shard(0, 2).shuffle().batch(2).warnings(), IsEmpty());
  EXPECT_THAT(numbers(8).batch(2).unbatch().batch(4).warnings(), IsEmpty());
  EXPECT_THAT(numbers(8).batch(2).unbatch().shuffle({.buffer = 2}).take(3).batch(4).warnings(),
              ElementsAre("take after shuffle selects other samples in each epoch; take before shuffle"));
}

TEST(WarningsTest, SayWhyAndWhatToDo) {
  const Pipeline batched = numbers(8).batch(2, LastBatch::kDrop);
  EXPECT_THAT(batched.batch(2, LastBatch::kDrop).warnings(),
              ElementsAre("batch after batch makes batches of batches; leave one of them out"));
  EXPECT_THAT(batched.padded_batch(2).warnings(),
              ElementsAre("padded_batch after batch makes batches of batches; leave one of them out"));
  EXPECT_THAT(batched.shuffle({.buffer = 2}).warnings(),
              ElementsAre("shuffle after batch moves whole batches, in which the same samples stay together; shuffle "
                          "before batch"));
  EXPECT_THAT(batched.take(1).warnings(),
              ElementsAre("take after batch counts batches, not samples; take before batch"));
  EXPECT_THAT(batched.skip(1).warnings(),
              ElementsAre("skip after batch counts batches, not samples; skip before batch"));
  EXPECT_THAT(batched.shard(0, 2).warnings(),
              ElementsAre("shard after batch lets every rank read and prepare the samples of all ranks; shard before "
                          "batch"));
  EXPECT_THAT(numbers(8).shuffle().take(4).warnings(),
              ElementsAre("take after shuffle selects other samples in each epoch; take before shuffle"));
  EXPECT_THAT(numbers(8).shuffle().batch(2).take(1).warnings(),
              ElementsAre("take after batch counts batches, not samples; take before batch",
                          "take after shuffle selects other samples in each epoch; take before shuffle"));
  EXPECT_THAT(numbers(8).prefetch(2).cache(std::make_shared<test::KeepAllStore>()).warnings(),
              ElementsAre("cache after prefetch: prefetch counts batches that are ready, and does nothing for the "
                          "cache; prefetch at the end"));
}

}  // namespace
}  // namespace penstock
