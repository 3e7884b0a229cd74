// The cache stage with a store of the test's own: who loads, who waits, and that results never change.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/gate.h"
#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::Gate;
using test::KeepAllStore;
using test::numbers;

TEST(LoaderCacheTest, LaterEpochsSkipTheMapsBeforeTheCache) {
  const Runtime runtime({.threads = 3});
  const auto store = std::make_shared<KeepAllStore>();
  std::atomic<int> before{0};
  std::atomic<int> after{0};
  const Pipeline pipeline = numbers(20)
                                .map("x",
                                     [&](std::int64_t x) {
                                       ++before;
                                       return x + 1;
                                     })
                                .cache(store)
                                .map("x",
                                     [&](std::int64_t x) {
                                       ++after;
                                       return x * 2;
                                     })
                                .batch(6);
  Loader loader(runtime, pipeline, {.epoch_count = 3});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::int64_t> all = test::flat_epoch(loader);
    ASSERT_EQ(all.size(), 20u);
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(all[i], (i * 10 + 1) * 2);
  }
  EXPECT_EQ(before, 20);
  EXPECT_EQ(after, 60);
  EXPECT_EQ(store->hits(), 40u);
}

TEST(LoaderCacheTest, OneKeyTwiceInABlockIsLoadedOnce) {
  for (const std::size_t block_size : {1, 6, 12}) {
    const Runtime runtime({.threads = 2});
    const auto store = std::make_shared<KeepAllStore>();
    std::atomic<int> loads{0};
    const Pipeline pipeline = numbers(4)
                                  .map("x",
                                       [&](std::int64_t x) {
                                         ++loads;
                                         return x + 1;
                                       })
                                  .cache(store)
                                  .repeat(3)
                                  .batch(12);
    Loader loader(runtime, pipeline, {.epoch_count = 1, .block_size = block_size});
    EXPECT_EQ(test::flat_epoch(loader), (std::vector<std::int64_t>{1, 11, 21, 31, 1, 11, 21, 31, 1, 11, 21, 31}));
    EXPECT_EQ(loads, 4);
  }
}

TEST(LoaderCacheTest, AStoreThatKeepsNothingStillDelivers) {
  const Runtime runtime({.threads = 4});
  const auto store = std::make_shared<KeepAllStore>();
  store->keeps = false;
  Loader loader(runtime, numbers(4).cache(store).repeat(5).batch(10), {.epoch_count = 2});
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(test::flat_epoch(loader).size(), 20u);
  EXPECT_EQ(store->loading(), 0u);
}

TEST(LoaderCacheTest, TwoLoadersShareALoadAndALeaverPassesItOn) {
  const Runtime runtime({.threads = 3});
  const auto store = std::make_shared<KeepAllStore>();
  Gate gate;
  std::atomic<bool> first{true};
  const Pipeline pipeline = numbers(1)
                                .map("x",
                                     [&](std::int64_t x) {
                                       if (first.exchange(false)) gate.wait();
                                       return x + 5;
                                     })
                                .cache(store)
                                .batch(1);
  auto owner = std::make_unique<Loader>(runtime, pipeline, LoaderOptions{.epoch_count = 1});
  owner->warm_up();
  gate.await_arrivals(1);
  Loader waits(runtime, pipeline, {.epoch_count = 1});
  EXPECT_FALSE(waits.poll());
  std::thread leave([&] { owner.reset(); });
  gate.open();
  EXPECT_EQ(test::flat_epoch(waits), (std::vector<std::int64_t>{5}));
  leave.join();
  EXPECT_EQ(store->loading(), 0u);
}

TEST(LoaderCacheTest, LeavingWhileAnotherLoadsTheKeyDoesNotWaitForIt) {
  const Runtime runtime({.threads = 2});
  const auto store = std::make_shared<KeepAllStore>();
  const SampleKey key = [&] {
    // The only key of this pipeline: seen by the store when a first loader asks.
    class Spy final : public SampleStore {
     public:
      Lookup begin(const SampleKey& asked, Sample&, Waiter) override {
        key = asked;
        return Lookup::kOwner;
      }
      void commit(const SampleKey&, const Sample&) override {}
      void fail(const SampleKey&, std::exception_ptr) override {}
      void abandon(const SampleKey&) override {}
      std::string describe() const override { return "spy"; }
      SampleKey key;
    };
    const auto spy = std::make_shared<Spy>();
    Loader loader(runtime, numbers(1).cache(spy).batch(1), {.epoch_count = 1});
    EXPECT_TRUE(loader.next());
    return spy->key;
  }();
  Sample hit;
  ASSERT_EQ(store->begin(key, hit, {}), Lookup::kOwner) << "the test loads it and never ends";
  {
    Loader loader(runtime, numbers(1).cache(store).batch(1), {.epoch_count = 1});
    loader.warm_up();
    while (store->pending() == 0) std::this_thread::yield();
  }
  store->commit(key, Sample({"x"}, {Tensor::scalar<std::int64_t>(77)}));
  Loader loader(runtime, numbers(1).cache(store).batch(1), {.epoch_count = 1});
  EXPECT_EQ(test::flat_epoch(loader), (std::vector<std::int64_t>{77})) << "values come from the store";
}

TEST(LoaderCacheTest, ASampleWithOtherFieldsIsRefusedByName) {
  class Liar final : public SampleStore {
   public:
    Lookup begin(const SampleKey&, Sample& hit, Waiter) override {
      hit = Sample({"y"}, {Tensor::scalar<std::int64_t>(1)});
      return Lookup::kHit;
    }
    void commit(const SampleKey&, const Sample&) override {}
    void fail(const SampleKey&, std::exception_ptr) override {}
    void abandon(const SampleKey&) override {}
    std::string describe() const override { return "liar"; }
  };
  const Runtime runtime({.threads = 1});
  Loader loader(runtime, numbers(1).cache(std::make_shared<Liar>()).batch(1), {.epoch_count = 1});
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const SampleError& error) {
    EXPECT_STREQ(error.what(),
                 "read: sample 0, \"number 0\": the cache gave a sample with other fields than x: i64 []");
  }
}

TEST(LoaderCacheTest, ATightBudgetAndACacheDeliverTheSame) {
  const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>(30, 300));
  const auto store = std::make_shared<KeepAllStore>();
  store->keeps = false;
  const Runtime runtime({.threads = 4, .budget_bytes = 3 * 128 + 1000});
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kI64, {}},
                                     [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[2]; })
                                .cache(store)
                                .repeat(3)
                                .shuffle()
                                .map("bytes", [](std::int64_t x) { return x - 2; })
                                .batch(10);
  Loader loader(runtime, pipeline, {.epoch_count = 2, .max_sample_bytes = 1000});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> all = test::flat_epoch(loader, "bytes");
    ASSERT_EQ(all.size(), 90u);
    std::sort(all.begin(), all.end());
    for (std::int64_t i = 0; i < 90; ++i) EXPECT_EQ(all[i], i / 3);
  }
  EXPECT_EQ(store->loading(), 0u);
  EXPECT_LE(runtime.peak_in_flight_bytes(), runtime.budget_bytes());
}

TEST(LoaderCacheTest, WhatIsTooLargeDoesNotDependOnTheCache) {
  // Each half of the chain fits alone; read bytes, the first half and the second together would not.
  const auto pipeline = [](std::shared_ptr<SampleStore> store) {
    Pipeline made =
        Pipeline(std::make_shared<test::BytesSource>(std::vector<std::int64_t>(4, 600)))
            .map("bytes", Output{DataType::kU8, {300}}, [](View<const std::uint8_t> in, View<std::uint8_t> out) {
              for (std::int64_t i = 0; i < 300; ++i) out[i] = in[i];
            });
    if (store) made = made.cache(std::move(store));
    return made
        .map("bytes", Output{DataType::kU8, {400}},
             [](View<const std::uint8_t> in, View<std::uint8_t> out) {
               for (std::int64_t i = 0; i < 400; ++i) out[i] = in[i % 300];
             })
        .map("bytes", Output{DataType::kU8, {1}},
             [](View<const std::uint8_t> in, View<std::uint8_t> out) { out[0] = in[1]; })
        .batch(2);
  };
  for (const bool keeps : {true, false}) {
    for (const std::size_t threads : {1, 3}) {
      const auto store = std::make_shared<KeepAllStore>();
      store->keeps = keeps;
      const Runtime runtime({.threads = threads, .budget_bytes = 3 * 64 + 1000});
      Loader loader(runtime, pipeline(store), {.epoch_count = 3, .max_sample_bytes = 1000});
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::uint8_t> all;
        while (const auto batch = loader.next()) {
          const auto view = batch->view<std::uint8_t>("bytes");
          all.insert(all.end(), view.span().begin(), view.span().end());
        }
        EXPECT_EQ(all, (std::vector<std::uint8_t>{1, 2, 3, 4}));
      }
      EXPECT_LE(runtime.peak_in_flight_bytes(), runtime.budget_bytes());
    }
  }
}

TEST(LoaderCacheTest, KeysChangeWithIdentityAndVersion) {
  const Runtime runtime({.threads = 1});
  const auto store = std::make_shared<KeepAllStore>();
  const auto run = [&](const Identity& identity, std::int64_t add) {
    Loader loader(runtime,
                  numbers(1).map(identity, "x", [add](std::int64_t x) { return x + add; }).cache(store).batch(1),
                  {.epoch_count = 1});
    return test::flat_epoch(loader)[0];
  };
  EXPECT_EQ(run({"add", 1, "a"}, 1), 1);
  EXPECT_EQ(run({"add", 1, "a"}, 2), 1) << "the same name: the kept value";
  EXPECT_EQ(run({"add", 2, "a"}, 3), 3);
  EXPECT_EQ(run({"add", 1, "b"}, 4), 4);
  EXPECT_EQ(run({"ad", 1, "a"}, 5), 5);
  const auto nameless = [&](std::int64_t add) {
    Loader loader(runtime, numbers(1).map("x", [add](std::int64_t x) { return x + add; }).cache(store).batch(1),
                  {.epoch_count = 1});
    return test::flat_epoch(loader)[0];
  };
  EXPECT_EQ(nameless(6), 6);
  EXPECT_EQ(nameless(7), 7);
}

}  // namespace
}  // namespace penstock
