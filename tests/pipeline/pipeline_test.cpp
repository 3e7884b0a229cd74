// Plans are checked where they are written, and the message names the stage.
#include <penstock/pipeline/pipeline.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::numbers;

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_REFUSED(expression, text) EXPECT_EQ(message([&] { static_cast<void>(expression); }), text)

const auto kSame = [](std::int64_t x) { return x; };
const auto kRandom = [](std::int64_t x, Draw&) { return x; };

TEST(PipelineTest, EveryCallGivesANewPlan) {
  const Pipeline plain = numbers(10);
  const Pipeline mapped = plain.map("x", [](std::int64_t x) { return static_cast<float>(x); });
  EXPECT_EQ(plain.schema().to_string(), "x: i64 []");
  EXPECT_EQ(mapped.schema().to_string(), "x: f32 []");
  EXPECT_EQ(plain.plan().stages.size(), 0u);
  EXPECT_EQ(mapped.plan().stages.size(), 1u);
}

TEST(PipelineTest, SizeCountsSamplesAndAfterBatchBatches) {
  EXPECT_EQ(numbers(10).size(), 10u);
  EXPECT_EQ(numbers(10).repeat(3).skip(1).take(20).shard(1, 3).size(), 7u);
  EXPECT_EQ(numbers(10).batch(3).size(), 4u);
  EXPECT_EQ(numbers(10).batch(3, LastBatch::kDrop).prefetch(5).size(), 3u);
}

TEST(PipelineTest, RefusesMapsThatDoNotFitTheirInput) {
  EXPECT_REFUSED(numbers(1).map("y", kSame), "map(y): there is no field \"y\"; there are: x");
  EXPECT_REFUSED(numbers(1).map("x", [](float x) { return x; }), "map(x): the function takes f32, field \"x\" is i64");
  EXPECT_REFUSED(numbers(1)
                     .map("x", Output{DataType::kF32, {2}}, [](View<const std::int64_t>, View<float>) {})
                     .map("x", [](float x) { return x; }),
                 "map(x): the function takes a scalar, field \"x\" has the shape [2]");
  EXPECT_REFUSED(
      numbers(1).map("x", Output{DataType::kF32, {Shape::kUnknown}}, [](View<const std::int64_t>, View<float>) {}),
      "map(x): the output's shape [?] is not known in full");
  EXPECT_REFUSED(numbers(1).map("x", Output{DataType::kI32, {2}}, [](View<const std::int64_t>, View<float>) {}),
                 "map(x): the function writes f32, the output says i32");
}

TEST(PipelineTest, RefusesNumbersThatMakeNoSense) {
  EXPECT_REFUSED(numbers(1).repeat(0), "repeat: 0 times; at least 1 is needed (take(0) makes an empty pipeline)");
  EXPECT_REFUSED(numbers(1).shard(2, 2),
                 "shard: rank 2 of 2; ranks are counted from 0 and lie below the number of ranks");
  EXPECT_REFUSED(numbers(1).shard(0, 0),
                 "shard: rank 0 of 0; ranks are counted from 0 and lie below the number of ranks");
  EXPECT_REFUSED(numbers(1).batch(0), "batch: a size of 0; at least 1 is needed");
  EXPECT_REFUSED(numbers(1).batch(1).prefetch(65537), "prefetch: 65537 batches; at most 65536 are possible");
  EXPECT_REFUSED(Pipeline(std::shared_ptr<const Source>()), "pipeline: there is no source");
}

TEST(PipelineTest, StagesAfterBatchWorkOnBatches) {
  const Pipeline batched = numbers(8).batch(2, LastBatch::kDrop);
  EXPECT_EQ(batched.repeat(3).size(), 12u);
  EXPECT_EQ(batched.take(3).skip(1).size(), 2u);
  EXPECT_EQ(batched.shard(1, 3).size(), 1u);
  EXPECT_EQ(batched.shuffle({.buffer = 2}).size(), 4u);
  EXPECT_EQ(batched.batch(3).size(), 2u);
  EXPECT_EQ(batched.batch(3).plan().schemas.back().to_string(), "x: i64 [?, 2]");
  EXPECT_EQ(batched.map("x", Output{DataType::kF32, {2}}, [](View<const std::int64_t>, View<float>) {})
                .plan()
                .schemas.back()
                .to_string(),
            "x: f32 [2]");
  EXPECT_REFUSED(batched.map("x", kSame), "map(x): the function takes a scalar, field \"x\" has the shape [2]");
  EXPECT_REFUSED(batched.shuffle(), "shuffle: after batch samples come one after the other; give a buffer");
  EXPECT_REFUSED(batched.cache(std::make_shared<test::KeepAllStore>()),
                 "cache: after batch an element is no longer one sample of its source, which is what it is kept by; "
                 "move it before");
}

TEST(PipelineTest, PrefetchStandsAnywhereOnce) {
  EXPECT_EQ(numbers(4).prefetch(2).batch(2).size(), 2u);
  EXPECT_REFUSED(numbers(4).batch(2).prefetch(1).prefetch(2), "prefetch: the pipeline has one already");
  EXPECT_REFUSED(numbers(4).prefetch(1).batch(2).prefetch(2), "prefetch: the pipeline has one already");
}

TEST(PipelineTest, RefusesACacheAfterARandomStageByName) {
  const auto store = std::make_shared<test::KeepAllStore>();
  MapStage flip = value_map("x", kRandom);
  flip.name = "random_flip";
  EXPECT_REFUSED(
      numbers(4).map(flip).map("x", kSame).cache(store),
      "cache: after the random stage \"random_flip\" every epoch would see the same variant; move it before");
  EXPECT_REFUSED(numbers(4).cache(store).cache(store), "cache: the pipeline has one already");
  EXPECT_REFUSED(numbers(4).cache(nullptr), "cache: there is no store");
  EXPECT_REFUSED(numbers(4).shuffle().cache(store).map("x", kRandom), "nothing was thrown");
}

/// Pictures of unknown size, and no known count.
class Stream final : public Source {
 public:
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
  std::string describe(std::uint64_t) const override { return "stream"; }
  void read(std::uint64_t, Sink& sink, FileReader&) const override { sink.fail(nullptr); }
  std::string fingerprint(std::uint64_t) const override { return ""; }

 private:
  Schema schema_{{{"image", DataType::kU8, {Shape::kUnknown, 4}}}};
};

TEST(PipelineTest, RefusesRowsOfUnknownShapeAndStreams) {
  const Pipeline stream(std::make_shared<Stream>());
  EXPECT_EQ(stream.size(), std::nullopt);
  EXPECT_REFUSED(
      stream.batch(2),
      "batch: field \"image\" has the shape [?, 4], and rows of a batch need one that is known; resize or crop "
      "it first");
  EXPECT_REFUSED(stream.shuffle(), "shuffle: the number of samples here is not known; give a buffer");
  const Runtime runtime({.threads = 1});
  const Pipeline batched =
      stream.map("image", Output{DataType::kU8, {1}}, [](View<const std::uint8_t>, View<std::uint8_t>) {}).batch(2);
  EXPECT_REFUSED(Loader(runtime, batched),
                 "loader: the source does not know its size; give it one, or write it as a generator");
  EXPECT_REFUSED(Loader(runtime, numbers(3)), "loader: the pipeline has no batch stage; add batch(size)");
}

}  // namespace
}  // namespace penstock
