// The same batches whatever the threads, block size, cache and point of resuming; whole epochs; last batches.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::BatchHash;
using test::numbers;
using test::values;
using testing::ElementsAre;

// Shuffled, cached or not, two random stages and a repeat: everything that could depend on when things run.
Pipeline random_chain(std::shared_ptr<SampleStore> store) {
  Pipeline pipeline = numbers(37).shuffle({.seed = 5}).repeat(2).map("x", [](std::int64_t x) { return x + 1; });
  if (store) pipeline = pipeline.cache(std::move(store));
  return pipeline
      .map("x", [](std::int64_t x, Draw& draw) { return x * 1000 + static_cast<std::int64_t>(draw.below(1000)); })
      .map("x", Output{DataType::kF32, {3}},
           [](View<const std::int64_t> in, View<float> out, Draw& draw) {
             for (std::int64_t i = 0; i < 3; ++i)
               out[i] = static_cast<float>(in[0]) + static_cast<float>(draw.uniform());
           })
      .batch(8);
}

std::uint64_t hash_of(Loader& loader, std::uint64_t epochs) {
  BatchHash hash;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    while (const std::optional<Batch> batch = loader.next()) hash.add(*batch);
  }
  return hash.get();
}

TEST(LoaderOrderTest, BatchesAreTheSameForAnyThreadsBlocksAndCache) {
  std::set<std::uint64_t> hashes;
  for (const std::size_t threads : {1, 2, 3, 8}) {
    const Runtime runtime({.threads = threads});
    for (const std::size_t block_size : {0, 1, 3, 8, 100}) {
      for (const int cache : {0, 1, 2}) {
        auto store = cache == 0 ? nullptr : std::make_shared<test::KeepAllStore>();
        if (cache == 2) store->keeps = false;
        Loader loader(runtime, random_chain(store), {.epoch_count = 3, .seed = 11, .block_size = block_size});
        hashes.insert(hash_of(loader, 3));
        if (cache == 1) {
          EXPECT_GE(store->hits(), 37u * 4) << "cached epochs must come from the store";
        }
        if (store) {
          EXPECT_EQ(store->loading(), 0u);
        }
      }
    }
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST(LoaderOrderTest, SeedsAndEpochsChangeTheBatches) {
  const Runtime runtime({.threads = 2});
  Loader a(runtime, random_chain(nullptr), {.epoch_count = 2, .seed = 11});
  Loader b(runtime, random_chain(nullptr), {.epoch_count = 2, .seed = 12});
  Loader c(runtime, random_chain(nullptr), {.epoch_count = 2, .seed = 11});
  std::vector<std::vector<float>> rows;
  for (Loader* const loader : {&a, &a, &b, &c}) {
    std::vector<float> epoch;
    while (const auto batch = loader->next()) {
      const auto view = batch->view<float>("x");
      epoch.insert(epoch.end(), view.span().begin(), view.span().end());
    }
    EXPECT_EQ(epoch.size(), 74u * 3);
    rows.push_back(epoch);
  }
  EXPECT_NE(rows[0], rows[1]);
  EXPECT_NE(rows[0], rows[2]);
  EXPECT_EQ(rows[0], rows[3]);
}

TEST(LoaderOrderTest, ResumingAfterAnyBatchGoesOnAsIfNothingHadBeen) {
  for (const std::size_t threads : {1, 2, 8}) {
    const Runtime runtime({.threads = threads});
    std::vector<std::uint64_t> hashes;
    std::vector<Position> positions{{}};
    {
      Loader whole(runtime, random_chain(nullptr), {.epoch_count = 2, .seed = 3});
      for (int epoch = 0; epoch < 2; ++epoch) {
        while (const auto batch = whole.next()) {
          BatchHash hash;
          hash.add(*batch);
          hashes.push_back(hash.get());
          positions.push_back(batch->position());
          EXPECT_EQ(whole.position(), batch->position());
        }
      }
    }
    ASSERT_EQ(hashes.size(), 20u);
    EXPECT_EQ(positions[10], (Position{1, 0}));
    EXPECT_EQ(positions[20], (Position{2, 0}));
    for (std::size_t k = 0; k < positions.size(); ++k) {
      auto store = k % 2 == 0 ? nullptr : std::make_shared<test::KeepAllStore>();
      Loader rest(runtime, random_chain(store),
                  {.epoch_count = 2, .seed = 3, .start = positions[k], .block_size = k % 4});
      std::size_t at = k;
      for (std::uint64_t epoch = positions[k].epoch; epoch < 2; ++epoch) {
        while (const auto batch = rest.next()) {
          BatchHash hash;
          hash.add(*batch);
          ASSERT_LT(at, hashes.size());
          ASSERT_EQ(hash.get(), hashes[at++]) << "resumed after " << k;
        }
      }
      EXPECT_EQ(at, hashes.size());
      EXPECT_FALSE(rest.next());
    }
  }
}

TEST(LoaderOrderTest, ShuffledEpochsDifferByThemselvesAndRepeatForTheSameSeed) {
  std::vector<std::vector<std::vector<std::int64_t>>> runs;
  for (int run = 0; run < 2; ++run) {
    const Runtime runtime({.threads = 2});
    Loader loader(runtime, numbers(16).shuffle({.seed = 7}).batch(5), {});
    std::vector<std::vector<std::int64_t>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      epochs.push_back(test::flat_epoch(loader));
      std::vector<std::int64_t> sorted = epochs.back();
      std::sort(sorted.begin(), sorted.end());
      for (std::int64_t i = 0; i < 16; ++i) ASSERT_EQ(sorted[i], i * 10);
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
    EXPECT_NE(epochs[0], epochs[2]);
    runs.push_back(epochs);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(LoaderOrderTest, LastBatchIsShortOrDroppedOrRefused) {
  const Runtime runtime({.threads = 2});
  Loader keep(runtime, numbers(7).batch(2), {});
  EXPECT_EQ(keep.batches_per_epoch(), 4u);
  EXPECT_EQ(keep.dropped_per_epoch(), 0u);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(test::epoch_values(keep),
                ElementsAre(ElementsAre(0, 10), ElementsAre(20, 30), ElementsAre(40, 50), ElementsAre(60)));
  }
  Loader drop(runtime, numbers(7).batch(2, LastBatch::kDrop), {});
  EXPECT_EQ(drop.batches_per_epoch(), 3u);
  EXPECT_EQ(drop.dropped_per_epoch(), 1u);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(test::epoch_values(drop), ElementsAre(ElementsAre(0, 10), ElementsAre(20, 30), ElementsAre(40, 50)));
  }
  EXPECT_EQ(drop.position(), (Position{2, 0}));
  EXPECT_EQ(numbers(7).batch(2).size(), 4u);
  EXPECT_EQ(numbers(7).batch(2, LastBatch::kDrop).size(), 3u);
  try {
    static_cast<void>(numbers(7).batch(2, LastBatch::kRefuse));
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "batch: 7 samples an epoch do not divide into batches of 2, 1 would be left; keep or drop them "
                 "(LastBatch::kKeep, LastBatch::kDrop)");
  }
  Loader divides(runtime, numbers(6).batch(2, LastBatch::kRefuse), {});
  EXPECT_EQ(test::epoch_values(divides).size(), 3u);
}

TEST(LoaderOrderTest, EmptyEpochsEndAtOnce) {
  const Runtime runtime({.threads = 2});
  for (const Pipeline& pipeline : {numbers(0).batch(2), numbers(5).take(0).batch(2),
                                   numbers(1).batch(2, LastBatch::kDrop), numbers(0).shuffle().batch(2)}) {
    Loader loader(runtime, pipeline, {.epoch_count = 2});
    EXPECT_EQ(loader.batches_per_epoch(), 0u);
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(loader.next());
    EXPECT_EQ(loader.position(), (Position{2, 0}));
  }
}

TEST(LoaderOrderTest, NothingComesAfterTheLastEpoch) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(3).batch(2), {.epoch_count = 2});
  EXPECT_EQ(test::flat_epoch(loader).size(), 3u);
  EXPECT_EQ(test::flat_epoch(loader).size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(loader.next());
  const LoaderReport report = loader.report();
  EXPECT_EQ(report.samples, 6u);
  EXPECT_EQ(report.batches, 4u);
  ASSERT_EQ(report.stages.size(), 1u);
  EXPECT_EQ(report.stages[0].name, "read");
  EXPECT_EQ(report.stages[0].count, 6u) << "nothing is read past the last epoch";
  Loader none(runtime, numbers(3).batch(2), {.epoch_count = 0});
  EXPECT_FALSE(none.next());
}

TEST(LoaderOrderTest, RefusesAStartBeyondTheEnd) {
  const Runtime runtime({.threads = 1});
  const auto message = [&](const LoaderOptions& options) -> std::string {
    try {
      const Loader loader(runtime, numbers(10).batch(4), options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message({.start = {0, 11}}),
            "loader: the start, epoch 0 slot 11, lies beyond the end: an epoch has 10 slots");
  EXPECT_EQ(message({.epoch_count = 2, .start = {3, 0}}),
            "loader: the start, epoch 3 slot 0, lies beyond the end: there are 2 epochs");
  EXPECT_EQ(message({.epoch_count = 2, .start = {2, 0}}), "nothing was thrown");
}

TEST(LoaderOrderTest, NoTwoSamplesShareTheirDraws) {
  std::vector<std::vector<std::int64_t>> by_threads;
  for (const std::size_t threads : {1, 8}) {
    const Runtime runtime({.threads = threads});
    const Pipeline pipeline =
        numbers(64)
            .shuffle({.seed = 1})
            .map("x", [](std::int64_t, Draw& draw) { return static_cast<std::int64_t>(draw.bits()) << 31; })
            .map("x", [](std::int64_t x, Draw& draw) { return x | static_cast<std::int64_t>(draw.bits() >> 1); })
            .batch(7);
    Loader loader(runtime, pipeline, {.epoch_count = 2, .seed = 4});
    std::vector<std::int64_t> all = test::flat_epoch(loader);
    const std::vector<std::int64_t> second = test::flat_epoch(loader);
    all.insert(all.end(), second.begin(), second.end());
    EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 128u);
    by_threads.push_back(all);
  }
  EXPECT_EQ(by_threads[0], by_threads[1]);
}

TEST(LoaderOrderTest, ADrawDoesNotDependOnTheOrderOrOnMapsThatDrawNothing) {
  const Runtime runtime({.threads = 2});
  const auto draw = [](std::int64_t x, Draw& d) {
    return x * 1'000'000 + static_cast<std::int64_t>(d.below(1'000'000));
  };
  const auto same = [](std::int64_t x) { return x; };
  Loader plain(runtime, numbers(20).map("x", draw).batch(6), {.seed = 9});
  Loader other(runtime, numbers(20).map("x", same).shuffle().map("x", draw).map("x", same).batch(5), {.seed = 9});
  const std::vector<std::int64_t> a = test::flat_epoch(plain);
  std::vector<std::int64_t> b = test::flat_epoch(other);
  EXPECT_NE(a, b);
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
}

TEST(LoaderOrderTest, RowsKnowWhereTheyComeFrom) {
  const Runtime runtime({.threads = 2});
  std::optional<Batch> kept;
  {
    Loader loader(runtime, numbers(20).shuffle({.seed = 3}).batch(6), {});
    kept = loader.next();
    ASSERT_TRUE(loader.next());
  }
  ASSERT_EQ(kept->size(), 6u);
  for (std::size_t row = 0; row < 6; ++row) {
    EXPECT_EQ(static_cast<std::int64_t>(kept->origin(row).index) * 10, values(*kept)[row]);
    EXPECT_EQ(kept->describe(row), "number " + std::to_string(kept->origin(row).index));
  }
  EXPECT_THROW(kept->origin(6), InvalidArgument);
}

TEST(LoaderOrderTest, PollGivesTheSameAsNextWithoutWaiting) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(5).batch(2), {.epoch_count = 1});
  std::vector<std::int64_t> all;
  for (;;) {
    const std::optional<NextResult> result = loader.poll();
    if (!result) continue;
    ASSERT_FALSE(result->error);
    if (!result->batch) break;
    const auto some = values(*result->batch);
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_THAT(all, ElementsAre(0, 10, 20, 30, 40));
}

}  // namespace
}  // namespace penstock
