// What can be turned while a loader runs: it changes how much is on its way, never what arrives.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/engine/budget.h>
#include <penstock/pipeline/engine/recycled_pool.h>
#include <penstock/pipeline/engine/row_cost.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/gate.h"
#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::Gate;
using test::numbers;

/// Sample i is {"x": i64 i}; the test answers each read.
class HeldSource final : public Source {
 public:
  explicit HeldSource(std::uint64_t count) : values_(count) {
    for (std::uint64_t i = 0; i < count; ++i) values_[i] = static_cast<std::int64_t>(i);
  }
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return values_.size(); }
  std::string describe(std::uint64_t index) const override { return "held " + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    const std::lock_guard lock(mutex_);
    held_.emplace_back(index, &sink);
    begun_.push_back(index);
    most_ = std::max(most_, held_.size());
    changed_.notify_all();
  }
  std::string fingerprint(std::uint64_t index) const override { return "held:" + std::to_string(index); }

  /// Blocks until `count` reads are held.
  void await(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() >= count; });
  }
  /// Answers the oldest read.
  void answer() const {
    std::pair<std::uint64_t, Sink*> read;
    {
      const std::lock_guard lock(mutex_);
      read = held_.front();
      held_.pop_front();
    }
    read.second->borrow(0, Shape{}, reinterpret_cast<const std::byte*>(&values_[read.first]));
    read.second->done();
  }
  std::size_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  std::vector<std::uint64_t> begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  Schema schema_{{{"x", DataType::kI64, {}}}};
  std::vector<std::int64_t> values_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::deque<std::pair<std::uint64_t, Sink*>> held_;
  mutable std::vector<std::uint64_t> begun_;
  mutable std::size_t most_ = 0;
};

constexpr std::uint64_t kCount = 60;

std::vector<std::int64_t> all_values() {
  std::vector<std::int64_t> all(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) all[i] = static_cast<std::int64_t>(i);
  return all;
}

TEST(LoaderKnobsTest, NoMoreSamplesAreReadAtOnceThanAllowedAndNoFewer) {
  for (const std::size_t threads : {1, 3}) {
    for (const std::size_t block_size : {0, 1, 3, 8}) {
      for (const std::size_t allowed : {1, 3, 5}) {
        const Runtime runtime({.threads = threads});
        const auto source = std::make_shared<HeldSource>(kCount);
        Loader loader(runtime, Pipeline(source).batch(8).prefetch(2),
                      {.epoch_count = 1, .block_size = block_size, .reads_in_flight = allowed});
        std::jthread answering([&] {
          // At the end of an epoch there are fewer left to be read.
          for (std::uint64_t i = 0; i < kCount; ++i) {
            source->await(i + allowed <= 8 ? allowed : 1);
            source->answer();
          }
        });
        EXPECT_EQ(test::flat_epoch(loader), all_values());
        EXPECT_EQ(source->most(), allowed) << threads << " threads, blocks of " << block_size;
        const LoaderReport report = loader.report();
        EXPECT_EQ(report.reads_most, allowed);
        EXPECT_EQ(report.knobs.reads_in_flight, allowed);
        EXPECT_GT(report.stages[0].wait_seconds, 0);
        EXPECT_EQ(report.stages[0].bytes, 8 * kCount);
      }
    }
  }
}

TEST(LoaderKnobsTest, ReadsThatHadToWaitBeginOldestFirst) {
  const Runtime runtime({.threads = 1});
  const auto source = std::make_shared<HeldSource>(kCount);
  Loader loader(runtime, Pipeline(source).batch(8).prefetch(3),
                {.epoch_count = 1, .block_size = 1, .reads_in_flight = 2});
  std::jthread answering([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      source->await(1);
      source->answer();
    }
  });
  EXPECT_EQ(test::flat_epoch(loader), all_values());
  const std::vector<std::uint64_t> begun = source->begun();
  EXPECT_TRUE(std::is_sorted(begun.begin(), begun.end()));
}

TEST(LoaderKnobsTest, MoreReadsBeginAsSoonAsTheyAreAllowed) {
  const Runtime runtime({.threads = 2});
  const auto source = std::make_shared<HeldSource>(kCount);
  Loader loader(runtime, Pipeline(source).batch(8), {.epoch_count = 1, .block_size = 1, .reads_in_flight = 1});
  loader.warm_up();
  source->await(1);
  EXPECT_EQ(source->most(), 1u);
  loader.turn({.reads_in_flight = 6});
  source->await(6);
  EXPECT_EQ(source->most(), 6u);
  EXPECT_EQ(loader.knobs().reads_in_flight, 6u);
  std::jthread answering([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      source->await(1);
      source->answer();
    }
  });
  EXPECT_EQ(test::flat_epoch(loader), all_values());
}

TEST(LoaderKnobsTest, LeavingWhileBlocksWaitForTheirReads) {
  const Runtime runtime({.threads = 2});
  const auto source = std::make_shared<HeldSource>(kCount);
  std::optional<Loader> loader;
  loader.emplace(runtime, Pipeline(source).batch(8), LoaderOptions{.block_size = 2, .reads_in_flight = 1});
  loader->warm_up();
  source->await(1);
  loader->stop();
  source->answer();
  loader.reset();
  EXPECT_EQ(source->begun().size(), 1u);
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(LoaderKnobsTest, BatchesAheadGrowAndShrinkAndNothingElseChanges) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  gate.open();
  const Pipeline pipeline = numbers(400)
                                .map("x",
                                     [&gate](std::int64_t x) {
                                       gate.wait();
                                       return x;
                                     })
                                .batch(8);
  Loader loader(runtime, pipeline, {.epoch_count = 1});
  EXPECT_EQ(loader.knobs().batches_ahead, 2u);
  loader.turn({.batches_ahead = 9});
  EXPECT_EQ(loader.knobs().batches_ahead, 9u);
  gate.await_arrivals(72);
  EXPECT_EQ(gate.arrived(), 72u) << "nine batches, not more";
  std::vector<std::int64_t> all;
  for (int i = 0; i < 20; ++i) {
    const std::vector<std::int64_t> some = test::values(*loader.next());
    all.insert(all.end(), some.begin(), some.end());
  }
  loader.turn({.batches_ahead = 1});
  EXPECT_EQ(loader.knobs().batches_ahead, 1u);
  const std::vector<std::int64_t> rest = test::flat_epoch(loader);
  all.insert(all.end(), rest.begin(), rest.end());
  ASSERT_EQ(all.size(), 400u);
  for (std::int64_t i = 0; i < 400; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], 10 * i);
  EXPECT_LE(runtime.in_flight_bytes(), 2 * loader.layout().size_bytes) << "no more is kept than is of use";
}

TEST(LoaderKnobsTest, MoreBatchesThanTheBudgetHoldsAreRefusedAndNothingIsTurned) {
  constexpr std::uint64_t kSample = 1000;
  const Pipeline pipeline = numbers(40).batch(8);  // 64 bytes a batch
  const Runtime runtime({.threads = 1, .budget_bytes = 3 * 64 + kSample + 2 * 64});
  Loader loader(runtime, pipeline, {.epoch_count = 1, .max_sample_bytes = kSample});
  loader.turn({.batches_ahead = 4});
  try {
    loader.turn({.block_size = 3, .batches_ahead = 6});
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "loader: the budget of 1320 bytes is too small: this loader needs 64 bytes (one more batch ahead, 6 "
                 "are asked for), other loaders have 1320 bytes; give the runtime at least 1384 bytes");
  }
  EXPECT_EQ(loader.knobs(), (Knobs{.threads = 1, .block_size = 0, .batches_ahead = 4, .reads_in_flight = 0}));
  EXPECT_EQ(test::flat_epoch(loader).size(), 40u);
}

TEST(LoaderKnobsTest, BlockSizesMayChangeAtAnyMoment) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(400).batch(8), {.epoch_count = 1});
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; const auto batch = loader.next(); ++i) {
    const std::vector<std::int64_t> some = test::values(*batch);
    all.insert(all.end(), some.begin(), some.end());
    loader.turn({.block_size = i % 9});
  }
  ASSERT_EQ(all.size(), 400u);
  for (std::int64_t i = 0; i < 400; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], 10 * i);
}

TEST(BlockRowsTest, ABlockTakesAboutATenthOfAMillisecond) {
  using engine::block_rows;
  engine::RowCost cost;
  EXPECT_EQ(block_rows(cost, 1'000'000, 256, 2), 32u) << "nothing is known: several blocks a worker";
  EXPECT_EQ(block_rows(cost, 1'000'000, 4, 2), 1u);
  cost.add(100, std::chrono::microseconds(1000));
  EXPECT_EQ(block_rows(cost, 1'000'000, 256, 2), 10u) << "10 us a row";
  EXPECT_EQ(block_rows(cost, 40, 256, 2), 5u) << "the end of an epoch spreads over the workers";
  EXPECT_EQ(block_rows(cost, 3, 256, 2), 1u);
  engine::RowCost cheap;
  cheap.add(1000, std::chrono::microseconds(10));
  EXPECT_EQ(block_rows(cheap, 1'000'000, 256, 2), 256u) << "never more than a batch";
  EXPECT_EQ(block_rows(cheap, 100, 256, 2), 256u) << "too little work to be worth a division";
  engine::RowCost dear;
  dear.add(1, std::chrono::milliseconds(5));
  EXPECT_EQ(block_rows(dear, 1'000'000, 256, 2), 1u);
}

TEST(RecycledPoolTest, GrowsByAShareEachAndGivesItBack) {
  const auto budget = std::make_shared<engine::Budget>(1000);
  const auto pool = std::make_shared<engine::RecycledPool>(engine::BudgetShare::reserve(budget, 200, "two"), 100, 2);
  const auto reserve = [&] { return engine::BudgetShare::reserve(budget, 100, "one more"); };
  const BatchLayout layout;
  std::vector<BatchLease> leases;
  pool->resize(5, 5, reserve);
  EXPECT_EQ(pool->capacity(), 5u);
  EXPECT_EQ(budget->guaranteed(), 500u);
  while (std::optional<BatchLease> lease = pool->try_acquire(layout, 0)) leases.push_back(std::move(*lease));
  EXPECT_EQ(leases.size(), 5u);
  EXPECT_TRUE(pool->all_lent());
  pool->resize(1, 1, reserve);
  EXPECT_EQ(pool->capacity(), 2u) << "never fewer than at first";
  EXPECT_EQ(budget->current(), 500u) << "what is on loan stays";
  leases.clear();
  EXPECT_EQ(budget->current(), 100u) << "one is kept";
  EXPECT_EQ(budget->guaranteed(), 200u);
  EXPECT_THROW(pool->resize(20, 20, reserve), InvalidArgument);
  EXPECT_EQ(pool->capacity(), 2u);
  EXPECT_EQ(budget->guaranteed(), 200u) << "all or nothing";
  leases.push_back(std::move(*pool->try_acquire(layout, 0)));
  leases.push_back(std::move(*pool->try_acquire(layout, 0)));
  EXPECT_FALSE(pool->try_acquire(layout, 0));
}

}  // namespace
}  // namespace penstock
