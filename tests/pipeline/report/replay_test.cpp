// Head-room: the consumer's ceiling is a loader that hands the same batches out without any work.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

Pipeline numbers(std::uint64_t count, std::size_t prefetch) {
  return Pipeline(std::make_shared<test::NumberSource>(count))
      .map("x", [](std::int64_t x) { return x + 1; })
      .batch(2)
      .prefetch(prefetch);
}

std::string refusal(std::size_t count, const Pipeline& pipeline, std::optional<std::uint64_t> epochs = {}) {
  const Runtime runtime({.threads = 1});
  try {
    Loader loader(runtime, pipeline, {.epoch_count = epochs, .replay_staged_batches = count});
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST(ReplayTest, HandsTheFirstBatchesOutAgainForEver) {
  for (const std::size_t count : {1, 2, 4}) {
    const Runtime runtime({.threads = 2});
    Loader loader(runtime, numbers(100, 3), {.epoch_count = 1, .replay_staged_batches = count});
    for (std::size_t i = 0; i < 500; ++i) {
      const std::optional<Batch> batch = loader.next();
      ASSERT_TRUE(batch) << "no end of an epoch comes";
      EXPECT_EQ(batch->index(), i % count);
      EXPECT_EQ(batch->view<std::int64_t>("x")[1], static_cast<std::int64_t>(i % count) * 20 + 11);
    }
  }
}

TEST(ReplayTest, DoesNoWorkOnceTheBatchesAreThere) {
  std::atomic<std::uint64_t> calls{0};
  const Runtime runtime({.threads = 1});
  const Pipeline pipeline = Pipeline(std::make_shared<test::NumberSource>(1000))
                                .map("x", [&calls](std::int64_t x) { return ++calls, x; })
                                .batch(2);
  Loader loader(runtime, pipeline, {.epoch_count = 1, .replay_staged_batches = 2});
  for (int i = 0; i < 100; ++i) loader.next();
  EXPECT_LE(calls.load(), 10u) << "the batches kept, and those that were ahead";
  EXPECT_EQ(loader.poll()->batch->index(), 0u);
}

TEST(ReplayTest, StopEndsIt) {
  const Runtime runtime({.threads = 1});
  Loader loader(runtime, numbers(10, 1), {.epoch_count = 1, .replay_staged_batches = 1});
  EXPECT_EQ(loader.next()->index(), 0u);
  EXPECT_EQ(loader.next()->index(), 0u);
  loader.stop();
  EXPECT_THROW(loader.next(), Stopped);
}

TEST(ReplayTest, RefusesMoreThanTheLoaderHasMemoryFor) {
  EXPECT_EQ(refusal(5, numbers(100, 3)), "");
  EXPECT_EQ(refusal(6, numbers(100, 3)),
            "loader: replay_staged_batches keeps 6 batches, this loader has memory for 5, those ahead and the one in "
            "the caller's hands; ask for prefetch(5), or keep fewer");
  EXPECT_EQ(refusal(6, numbers(100, 5)), "");
}

TEST(ReplayTest, RefusesMoreThanThereAre) {
  EXPECT_EQ(refusal(4, numbers(6, 5), 1),
            "loader: replay_staged_batches keeps 4 batches, all of its epochs together have 3");
  EXPECT_EQ(refusal(4, numbers(6, 5), 2), "");
}

}  // namespace
}  // namespace penstock
