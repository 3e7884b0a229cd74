// bucket: who is batched with whom, and what waits.
#include <gtest/gtest.h>

#include <stdexcept>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

std::uint64_t length(const Sample& sample) { return static_cast<std::uint64_t>(sample["x"].shape()[0]); }

/// Short ones (below 2) by three, middle ones (below 4) by two, long ones alone.
Bucket three() { return {.length = length, .boundaries = {2, 4}, .batch_sizes = {3, 2, 1}}; }

MakeOperator bucketed(const Bucket& options, ListOperator::Items items) {
  return last_stage(list_pipeline().bucket(options), std::move(items));
}

TEST(BucketTest, GivesABatchWhenABucketIsFullAndTheRestAtTheEnd) {
  EXPECT_EQ(shown(bucketed(three(), lists({1, 3, 5, 0, 2, 1, 3, 1}))), "[5 5 5 5 5] [3 3 3 2 2 0] [1 0 1] [1] [3 3 3]");
  Bucket dropping = three();
  dropping.padded.last = LastBatch::kDrop;
  EXPECT_EQ(shown(bucketed(dropping, lists({1, 3, 5, 0, 2, 1, 3, 1}))), "[5 5 5 5 5] [3 3 3 2 2 0] [1 0 1]");
  EXPECT_EQ(shown(bucketed(three(), lists({}))), "");
  EXPECT_EQ(shown(bucketed({.length = length, .boundaries = {}, .batch_sizes = {2}}, lists({1, 2, 3}))),
            "[1 0 2 2] [3 3 3]");
}

TEST(BucketTest, BoundariesBelongToTheBucketAbove) {
  EXPECT_EQ(shown(bucketed({.length = length, .boundaries = {2}, .batch_sizes = {1, 2}}, lists({2, 1, 2}))),
            "[1] [2 2 2 2]");
}

TEST(BucketTest, ErrorsBelongToNoBucket) {
  Bucket options = three();
  options.length = [](const Sample& sample) -> std::uint64_t {
    if (length(sample) == 3) throw std::runtime_error("three is no length");
    return length(sample);
  };
  options.padded.shapes = {{"x", {4}}};
  const auto got = run(bucketed(options, lists({1, -1, 2, 3, 9, 2})));
  EXPECT_EQ(shown(got), "! ! ! [2 2 0 0 2 2 0 0] [1 0 0 0]");
  EXPECT_EQ(error_text(got[0]), "read: bad bytes");
  EXPECT_EQ(error_text(got[1]), "bucket: three is no length");
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 3}}));
  EXPECT_EQ(error_text(got[2]), "bucket: field \"x\" is [9], larger than what it is padded to, [4]");
  EXPECT_EQ(shown(skipping(bucketed(options, lists({1, 2, 3, 9, 2})))), "~ ~ [2 2 0 0 2 2 0 0] [1 0 0 0]");
  expect_lawful(bucketed(options, lists({1, -1, 2, 3, 9, 2, 1})));
  expect_lawful(skipping(bucketed(options, lists({1, -1, 2, 3, 9, 2, 1}))));
}

TEST(BucketTest, KnowsWhereEachRowCameFrom) {
  const auto got = run(bucketed(three(), lists({3, 1, 2})));
  ASSERT_EQ(shown(got), "[3 3 3 2 2 0] [1]");
  EXPECT_EQ(got[0].row_origins, (std::vector<std::vector<Origin>>{{{0, 0}}, {{0, 2}}}));
}

TEST(BucketTest, KeepsWhatWaitsAndNoMore) {
  StreamFixture fixture;
  const auto root = bucketed(three(), lists({1, 5, 1}))(fixture.context, {});
  root->start({});
  const auto got = drain(fixture, *root);
  EXPECT_EQ(shown(got), "[5 5 5 5 5] [1 1]");
  EXPECT_EQ(fixture.context.kept->used(), 0u);
}

TEST(BucketTest, AStateListsWhatWaitsHoweverLongAgoItCame) {
  // Lengths 1 wait for a third one while many longer ones pass.
  std::vector<std::int64_t> lengths{1};
  for (int i = 0; i < 100; ++i) lengths.push_back(5);
  lengths.insert(lengths.end(), {1, 3, 5, 1, 2});
  expect_lawful(bucketed(three(), lists(lengths)));
}

TEST(BucketTest, RefusesWhatMakesNoBuckets) {
  const auto build = [](const Bucket& options) {
    return refusal([&] { static_cast<void>(list_pipeline().bucket(options)); });
  };
  EXPECT_EQ(build({.length = nullptr, .boundaries = {}, .batch_sizes = {1}}), "bucket: length is no function");
  EXPECT_EQ(build({.length = length, .boundaries = {1, 2}, .batch_sizes = {1}}),
            "bucket: 1 batch sizes for 2 boundaries; one more than boundaries is needed");
  EXPECT_EQ(build({.length = length, .boundaries = {2, 2}, .batch_sizes = {1, 1, 1}}),
            "bucket: boundary 2 after 2; boundaries must rise");
  EXPECT_EQ(build({.length = length, .boundaries = {}, .batch_sizes = {0}}),
            "bucket: a batch size of 0; at least 1 is needed");
  Bucket padded = three();
  padded.padded.last = LastBatch::kPad;
  EXPECT_EQ(build(padded),
            "bucket: what is left in the buckets is kept or dropped (LastBatch::kKeep, LastBatch::kDrop)");
  padded = three();
  padded.padded.padding = {{"y", 0}};
  EXPECT_EQ(build(padded), "bucket: there is no field \"y\"; there are: x");
}

TEST(BucketTest, IsABatchStageOfUnknownSize) {
  const Pipeline pipeline = list_pipeline().bucket(three());
  EXPECT_EQ(pipeline.size(), std::nullopt);
  EXPECT_EQ(pipeline.plan().batch_depth, 1);
  EXPECT_EQ(pipeline.plan().schemas.back().to_string(), "x: i64 [?, ?]");
}

TEST(BucketTest, WaitsForRoom) { expect_waits_for_room(bucketed(three(), lists({2, 1, 2, 2, 1, 2})), 32); }

TEST(BucketTest, IsLawful) {
  const Bucket odd_even{
      .length = [](const Sample& s) { return static_cast<std::uint64_t>(s["x"].view<std::int64_t>()[0] % 2); },
      .boundaries = {1},
      .batch_sizes = {2, 3}};
  for (const auto& items : hard_lists()) expect_lawful(last_stage(numbers(1).bucket(odd_even), items));
  for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDrop}) {
    Bucket options = three();
    options.padded.last = last;
    expect_lawful(bucketed(options, lists({1, 3, 5, 0, 2, 1, -1, 3, 1, 2, 3, 7})));
  }
}

}  // namespace
}  // namespace penstock
