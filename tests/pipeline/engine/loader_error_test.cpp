// Failed samples arrive in their place, with everything a person needs, and nothing else is lost.
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::BytesSource;
using test::numbers;
using test::values;

/// What next() gave until the epoch's end: rows as values, errors as text.
std::vector<std::string> story(Loader& loader) {
  std::vector<std::string> all;
  for (;;) {
    try {
      const std::optional<Batch> batch = loader.next();
      if (!batch) return all;
      std::string text = std::to_string(batch->index());
      text.append("@").append(std::to_string(batch->first_row())).append(":");
      for (const std::int64_t value : values(*batch)) text.append(" ").append(std::to_string(value / 10));
      all.push_back(text);
    } catch (const SampleError& error) {
      all.push_back(std::string("error: ") + error.what());
    }
  }
}

Pipeline failing_at(std::uint64_t count, std::vector<std::int64_t> bad) {
  return numbers(count).map("x", [bad](std::int64_t x) {
    for (const std::int64_t index : bad) {
      if (x == index * 10) throw std::runtime_error("bad number");
    }
    return x;
  });
}

std::string error_text(int index) {
  return "error: map(x): sample " + std::to_string(index) + ", \"number " + std::to_string(index) + "\": bad number";
}

struct OwnError {
  OwnError(std::string t, int c) : text(std::move(t)), code(c) {}
  std::string text;
  int code;
};

template <class Check>
void expect_kept(std::size_t threads, const Pipeline& pipeline, Check check) {
  const Runtime runtime({.threads = threads});
  Loader loader(runtime, pipeline.batch(4), {.epoch_count = 1});
  std::vector<std::int64_t> before;
  bool thrown = false;
  std::vector<std::int64_t> after;
  for (;;) {
    try {
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      for (const std::int64_t value : values(*batch)) (thrown ? after : before).push_back(value / 10);
    } catch (const SampleError& error) {
      EXPECT_FALSE(thrown);
      thrown = true;
      EXPECT_EQ(error.index(), 11u);
      EXPECT_EQ(error.stage(), "map(x)");
      EXPECT_EQ(error.source(), "number 11");
      EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
      ASSERT_NE(error.cause(), nullptr);
      check(error);
    }
  }
  EXPECT_TRUE(thrown);
  EXPECT_THAT(before, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(after, testing::ElementsAre(12, 13, 14, 15, 16, 17, 18, 19));
}

TEST(LoaderErrorTest, ExceptionsOfAnyTypeReachTheConsumerWithTheirText) {
  for (const std::size_t threads : {1, 8}) {
    expect_kept(threads,
                numbers(20).map("x",
                                [](std::int64_t x) {
                                  if (x == 110) throw std::runtime_error("a tail without a head");
                                  return x;
                                }),
                [](const SampleError& error) {
                  EXPECT_STREQ(error.what(), "map(x): sample 11, \"number 11\": a tail without a head");
                  try {
                    std::rethrow_if_nested(error);
                    FAIL() << "nothing is nested";
                  } catch (const std::runtime_error& cause) {
                    EXPECT_STREQ(cause.what(), "a tail without a head");
                  }
                });
    expect_kept(threads,
                numbers(20).map("x",
                                [](std::int64_t x) {
                                  if (x == 110) throw OwnError("own", 42);
                                  return x;
                                }),
                [](const SampleError& error) {
                  EXPECT_STREQ(error.what(),
                               "map(x): sample 11, \"number 11\": something that is no std::exception was thrown");
                  try {
                    std::rethrow_exception(error.cause());
                  } catch (const OwnError& cause) {
                    EXPECT_EQ(cause.text, "own");
                    EXPECT_EQ(cause.code, 42);
                  }
                });
    expect_kept(threads,
                numbers(20).map("x",
                                [](std::int64_t x) {
                                  if (x == 110) throw 7;
                                  return x;
                                }),
                [](const SampleError& error) {
                  EXPECT_STREQ(error.what(), "map(x): sample 11, \"number 11\": the integer 7 was thrown");
                  EXPECT_THROW(std::rethrow_exception(error.cause()), int);
                });
  }
}

TEST(LoaderErrorTest, BatchesAreCutAtEachBadSampleAndBoundariesStay) {
  for (const std::size_t threads : {1, 3}) {
    for (const std::size_t block_size : {0, 1, 3}) {
      const Runtime runtime({.threads = threads});
      Loader loader(runtime, failing_at(10, {0, 5, 6, 8, 9}).batch(4), {.block_size = block_size});
      const std::vector<std::string> expected{error_text(0), "0@1: 1 2 3", "1@0: 4",      error_text(5),
                                              error_text(6), "1@3: 7",     error_text(8), error_text(9)};
      EXPECT_EQ(story(loader), expected);
      EXPECT_EQ(story(loader), expected) << "the loader goes on, and the next epoch is the same";
    }
  }
}

TEST(LoaderErrorTest, ResumingAfterAPieceGoesOnWithinTheBatch) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, failing_at(10, {5}).batch(4), {});
  ASSERT_TRUE(loader.next());
  const std::optional<Batch> piece = loader.next();
  ASSERT_EQ(piece->size(), 1u);
  EXPECT_EQ(piece->position(), (Position{0, 5}));
  Loader again(runtime, failing_at(10, {5}).batch(4), {.start = piece->position()});
  EXPECT_EQ(story(again), (std::vector<std::string>{error_text(5), "1@2: 6 7", "2@0: 8 9"}));
  Loader healed(runtime, numbers(10).batch(4), {.start = piece->position()});
  EXPECT_EQ(story(healed), (std::vector<std::string>{"1@1: 5 6 7", "2@0: 8 9"}));
}

TEST(LoaderErrorTest, AllSamplesMayFail) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, failing_at(3, {0, 1, 2}).batch(2), {.epoch_count = 1});
  EXPECT_EQ(story(loader), (std::vector<std::string>{error_text(0), error_text(1), error_text(2)}));
  EXPECT_EQ(loader.position(), (Position{1, 0}));
}

TEST(LoaderErrorTest, AFailedReadIsOfTheStageReadAndKeepsItsKind) {
  const Runtime runtime({.threads = 2});
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>{-1, 4, 4, 4, -1});
  Loader loader(runtime,
                Pipeline(source)
                    .map("bytes", Output{DataType::kI64, {}},
                         [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[0]; })
                    .batch(5),
                {.epoch_count = 1});
  std::vector<std::string> texts;
  std::size_t rows = 0;
  for (;;) {
    try {
      const auto batch = loader.next();
      if (!batch) break;
      rows += batch->size();
      EXPECT_EQ(values(*batch, "bytes"), (std::vector<std::int64_t>{1, 2, 3}));
    } catch (const SampleError& error) {
      EXPECT_EQ(error.stage(), "read");
      EXPECT_EQ(error.kind(), ErrorKind::kTruncated);
      EXPECT_THROW(std::rethrow_exception(error.cause()), DataError);
      texts.push_back(error.what());
    }
  }
  EXPECT_EQ(rows, 3u);
  EXPECT_THAT(texts, testing::ElementsAre("read: sample 0, \"bytes/0\": truncated: it ends too early",
                                          "read: sample 4, \"bytes/4\": truncated: it ends too early"));
}

TEST(LoaderErrorTest, APollHandsOutTheErrorInsteadOfThrowing) {
  const Runtime runtime({.threads = 1});
  Loader loader(runtime, failing_at(1, {0}).batch(1), {.epoch_count = 1});
  std::optional<NextResult> result;
  while (!(result = loader.poll())) {
  }
  ASSERT_TRUE(result->error);
  EXPECT_FALSE(result->batch);
  EXPECT_THROW(std::rethrow_exception(result->error), SampleError);
}

TEST(LoaderErrorTest, ARowOfTheWrongShapeNamesTheFieldAndBothShapes) {
  const Runtime runtime({.threads = 1});
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>{2, 3});
  MapStage stage{.name = "claims_two", .identity = {}, .draws = false, .writes = {"bytes"}, .output = {}, .bind = {}};
  stage.output = [](const Schema&) { return Schema({{"bytes", DataType::kU8, {2}}}); };
  stage.bind = [](const Schema&) -> MapBody { return [](Row&, Draw&) {}; };
  Loader loader(runtime, Pipeline(source).map(stage).batch(2), {.epoch_count = 1});
  const std::optional<Batch> first = loader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->size(), 1u);
  EXPECT_EQ(first->view<std::uint8_t>("bytes")[1], 1u);
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const SampleError& error) {
    EXPECT_STREQ(error.what(),
                 "claims_two: sample 1, \"bytes/1\": field \"bytes\" is u8 [3], rows of the batch are u8 [2]");
  }
}

TEST(LoaderErrorTest, ASampleMapThatReturnsOtherFieldsIsTold) {
  const Runtime runtime({.threads = 1});
  const auto message = [&](const Pipeline& pipeline) -> std::string {
    Loader loader(runtime, pipeline.batch(1), {.epoch_count = 1});
    try {
      loader.next();
    } catch (const SampleError& error) {
      EXPECT_THROW(std::rethrow_exception(error.cause()), InvalidArgument);
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message(numbers(1).map([](Sample) { return Sample({"y"}, {Tensor::scalar<std::int64_t>(1)}); })),
            "map: sample 0, \"number 0\": there is no field \"x\"; there are: y");
  EXPECT_EQ(message(numbers(1).map([](Sample sample) {
              sample.set("x", Tensor::scalar<float>(1));
              return sample;
            })),
            "map: sample 0, \"number 0\": the function returned \"x\" as f32 [], expected i64 []");
}

TEST(LoaderErrorTest, TheFirstFailedLoadOfAKeyFailsTheSampleAsTheMapDid) {
  // repeat(2) brings the same key twice into one block: the second waits for the first.
  for (const std::size_t threads : {1, 4}) {
    const Runtime runtime({.threads = threads});
    const auto store = std::make_shared<test::KeepAllStore>();
    const Pipeline pipeline = failing_at(3, {1}).cache(store).repeat(2).batch(6);
    Loader loader(runtime, pipeline, {.epoch_count = 2, .block_size = 6});
    const std::vector<std::string> expected{"0@0: 0", error_text(1), "0@2: 2 0", error_text(1), "0@5: 2"};
    EXPECT_EQ(story(loader), expected);
    EXPECT_EQ(story(loader), expected);
    EXPECT_EQ(store->loading(), 0u);
  }
}

}  // namespace
}  // namespace penstock
