// Bytes in flight stay inside the budget, and a budget makes things slow but never stand still.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/gate.h"
#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::BytesSource;
using test::numbers;
using testing::ThrowsMessage;

Pipeline sums(std::shared_ptr<BytesSource> source) {
  return Pipeline(std::move(source))
      .map("bytes", Output{DataType::kI64, {}}, [](View<const std::uint8_t> in, View<std::int64_t> out) {
        out[0] = 0;
        for (const std::uint8_t byte : in.span()) out[0] += byte;
      });
}

std::int64_t sum_of(std::int64_t index, std::int64_t size) {
  std::int64_t sum = 0;
  for (std::int64_t j = 0; j < size; ++j) sum += (index + j) % 256;
  return sum;
}

TEST(LoaderBudgetTest, RefusesABudgetThatCannotHoldTheShareWithTheArithmetic) {
  const Runtime runtime({.threads = 1, .budget_bytes = 1000});
  const auto message = [&](const LoaderOptions& options) -> std::string {
    try {
      const Loader loader(runtime, numbers(10).batch(4), options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(
      message({.max_sample_bytes = 809}),
      "loader: the budget of 1000 bytes is too small: this loader needs 1001 bytes (2 open batches and one in the "
      "caller's hands, 3 x 64 = 192, and the largest sample, 809); give the runtime at least 1001 bytes");
  EXPECT_EQ(message({.max_sample_bytes = 808}), "nothing was thrown");
  const Loader first(runtime, numbers(10).batch(4), {.max_sample_bytes = 300});
  EXPECT_THAT(message({.max_sample_bytes = 400}),
              testing::HasSubstr("other loaders have 492 bytes; give the runtime at least 1084"));
}

TEST(LoaderBudgetTest, RefusesOptionsOfTheRuntimeThatCannotWork) {
  EXPECT_THAT([] { Runtime({.budget_bytes = 0}); }, ThrowsMessage<InvalidArgument>("runtime: a budget of 0 bytes"));
  EXPECT_THAT([] { Runtime({.threads = 1025}); },
              ThrowsMessage<InvalidArgument>("runtime: 1025 threads; at most 1024 are possible"));
  EXPECT_THAT([] { Runtime({.io_threads = 0}); },
              ThrowsMessage<InvalidArgument>("runtime: 0 I/O threads; 1 to 1024 are possible"));
}

TEST(LoaderBudgetTest, TheTightestBudgetStillDeliversEverything) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 60; ++i) sizes.push_back(i % 7 == 0 ? 1000 : i % 3 == 0 ? 1 : 300);
  const auto source = std::make_shared<BytesSource>(sizes);
  for (const std::size_t threads : {1, 2, 8}) {
    for (const std::size_t block_size : {0, 1, 10}) {
      const Runtime runtime({.threads = threads, .budget_bytes = 3 * 128 + 1000});
      Loader loader(runtime, sums(source).batch(10),
                    {.epoch_count = 2, .max_sample_bytes = 1000, .block_size = block_size});
      for (int epoch = 0; epoch < 2; ++epoch) {
        const std::vector<std::int64_t> all = test::flat_epoch(loader, "bytes");
        ASSERT_EQ(all.size(), sizes.size());
        for (std::int64_t i = 0; i < 60; ++i) ASSERT_EQ(all[i], sum_of(i, sizes[i])) << i;
      }
      EXPECT_LE(runtime.peak_in_flight_bytes(), runtime.budget_bytes());
    }
  }
  EXPECT_GT(source->refusals, 0u) << "the budget must have been too small for some reads";
}

TEST(LoaderBudgetTest, ATightBudgetWithMapsThatNeedMemoryDeliversEverything) {
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>(40, 200));
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kI32, {100}},
                                     [](View<const std::uint8_t> in, View<std::int32_t> out) {
                                       for (std::int64_t i = 0; i < 100; ++i) out[i] = in[i] + 1;
                                     })
                                .map("bytes", Output{DataType::kI32, {50}},
                                     [](View<const std::int32_t> in, View<std::int32_t> out) {
                                       for (std::int64_t i = 0; i < 50; ++i) out[i] = in[2 * i] + in[2 * i + 1];
                                     })
                                .map("bytes", Output{DataType::kI64, {}},
                                     [](View<const std::int32_t> in, View<std::int64_t> out) {
                                       out[0] = 0;
                                       for (const std::int32_t value : in.span()) out[0] += value;
                                     })
                                .batch(8);
  for (const std::size_t threads : {1, 2, 8}) {
    const Runtime runtime({.threads = threads, .budget_bytes = 3 * 64 + 800});
    Loader loader(runtime, pipeline, {.epoch_count = 3, .max_sample_bytes = 800});
    for (int epoch = 0; epoch < 3; ++epoch) {
      const std::vector<std::int64_t> all = test::flat_epoch(loader, "bytes");
      ASSERT_EQ(all.size(), 40u);
      for (std::int64_t i = 0; i < 40; ++i) ASSERT_EQ(all[i], sum_of(i, 100) + 100);
    }
    EXPECT_LE(runtime.peak_in_flight_bytes(), runtime.budget_bytes());
    EXPECT_GT(runtime.peak_in_flight_bytes(), 3u * 64);
  }
}

TEST(LoaderBudgetTest, ASampleBeyondTheLargestFailsAloneWhateverTheThreads) {
  for (const std::size_t threads : {1, 8}) {
    const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>{10, 1001, 10, 1000});
    const Runtime runtime({.threads = threads});
    Loader loader(runtime, sums(source).batch(4), {.epoch_count = 1, .max_sample_bytes = 1000});
    EXPECT_EQ(loader.next()->size(), 1u);
    try {
      loader.next();
      FAIL() << "nothing was thrown";
    } catch (const SampleError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTooLarge);
      EXPECT_STREQ(
          error.what(),
          "read: sample 1, \"bytes/1\": reading the sample takes at least 1001 bytes, the most allowed is 1000 "
          "(LoaderOptions::max_sample_bytes)");
    }
    EXPECT_EQ(loader.next()->size(), 2u);
    EXPECT_FALSE(loader.next());
  }
}

TEST(LoaderBudgetTest, AMapThatNeedsMoreThanTheLargestSampleFailsTheSample) {
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>{100});
  const Runtime runtime({.threads = 1});
  const Pipeline pipeline =
      Pipeline(source)
          .map("bytes", Output{DataType::kI64, {50}}, [](View<const std::uint8_t>, View<std::int64_t>) {})
          .map("bytes", Output{DataType::kI64, {}}, [](View<const std::int64_t>, View<std::int64_t>) {})
          .batch(1);
  Loader loader(runtime, pipeline, {.epoch_count = 1, .max_sample_bytes = 499});
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const SampleError& error) {
    EXPECT_STREQ(
        error.what(),
        "map(bytes): sample 0, \"bytes/0\": the sample needs at least 500 bytes on its way, the most allowed is "
        "499 (LoaderOptions::max_sample_bytes)");
    EXPECT_EQ(error.kind(), ErrorKind::kTooLarge);
  }
  Loader enough(runtime, pipeline, {.epoch_count = 1, .max_sample_bytes = 500});
  EXPECT_TRUE(enough.next());
}

TEST(LoaderBudgetTest, AConsumerThatNeverComesKeepsTheFillingInsideTheShare) {
  const Runtime runtime({.threads = 2});
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>(1000, 50));
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t seen = 0;
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kI64, {}},
                                     [&](View<const std::uint8_t>, View<std::int64_t> out) {
                                       out[0] = 1;
                                       const std::lock_guard lock(mutex);
                                       ++seen;
                                       changed.notify_all();
                                     })
                                .batch(10)
                                .prefetch(3);
  Loader loader(runtime, pipeline, {.max_sample_bytes = 1000});
  loader.warm_up();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return seen == 40; });
  }
  EXPECT_LE(runtime.in_flight_bytes(), 5u * 128 + 4 * 10 * 50);
  EXPECT_EQ(loader.next()->size(), 10u);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return seen == 50; });
  }
}

TEST(LoaderBudgetTest, BatchesHeldByTheCallerAreAnErrorNotAHang) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(100).batch(4), {.epoch_count = 1});
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(*loader.next());
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const BudgetHeldByCaller& error) {
    EXPECT_STREQ(error.what(),
                 "next: all 3 batches of this loader are held by the caller (3 x 64 = 192 bytes), none is left to be "
                 "filled; let one go, or ask for more with prefetch(2)");
  }
  const std::optional<NextResult> polled = loader.poll();
  ASSERT_TRUE(polled && polled->error);
  EXPECT_THROW(std::rethrow_exception(polled->error), BudgetHeldByCaller);
  held.erase(held.begin());
  const std::optional<Batch> fourth = loader.next();
  ASSERT_TRUE(fourth);
  EXPECT_EQ(test::values(*fourth)[0], 120);
  EXPECT_EQ(test::values(held[0])[0], 40) << "what the caller holds is not written again";
}

TEST(LoaderBudgetTest, BatchesOutliveLoaderAndRuntime) {
  std::optional<Batch> kept;
  {
    const Runtime runtime({.threads = 2});
    Loader loader(runtime, numbers(10).batch(4), {});
    kept = loader.next();
    ASSERT_TRUE(loader.next());
  }
  EXPECT_THAT(test::values(*kept), testing::ElementsAre(0, 10, 20, 30));
  EXPECT_EQ(kept->describe(3), "number 3");
}

TEST(LoaderBudgetTest, EverythingComesBack) {
  const Runtime runtime({.threads = 2});
  {
    const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>(100, 50));
    Loader loader(runtime, sums(source).batch(8), {.epoch_count = 1});
    EXPECT_EQ(test::flat_epoch(loader, "bytes").size(), 100u);
    EXPECT_GT(runtime.in_flight_bytes(), 0u);
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(LoaderBudgetTest, TwoLoadersOnATightBudgetBothFinish) {
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>(200, 400));
  const Runtime runtime({.threads = 3, .budget_bytes = 2 * (3 * 64 + 1000)});
  const auto run = [&](std::vector<std::int64_t>& out) {
    Loader loader(runtime, sums(source).batch(8), {.epoch_count = 1, .max_sample_bytes = 1000});
    out = test::flat_epoch(loader, "bytes");
  };
  std::vector<std::int64_t> a;
  std::vector<std::int64_t> b;
  std::thread other([&] { run(a); });
  run(b);
  other.join();
  EXPECT_EQ(a.size(), 200u);
  EXPECT_EQ(a, b);
  EXPECT_LE(runtime.peak_in_flight_bytes(), runtime.budget_bytes());
}

/// Lends `count` blocks; says no when told to.
class SmallMemory final : public BatchMemory {
 public:
  SmallMemory(std::size_t bytes, std::size_t count) : bytes_(bytes), count_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      blocks_.push_back(std::make_unique<std::byte[]>(bytes + 64));
      free_.push_back(i);
    }
  }
  std::optional<BatchLease> try_acquire(const BatchLayout& layout, std::uint64_t batch_index) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(layout.size_bytes, bytes_);
    if (free_.empty()) return std::nullopt;
    asked.push_back(batch_index);
    const std::size_t block = free_.back();
    free_.pop_back();
    const auto address = (reinterpret_cast<std::uintptr_t>(blocks_[block].get()) + 63) / 64 * 64;
    return BatchLease(reinterpret_cast<std::byte*>(address), bytes_, [this, block] {
      {
        const std::lock_guard lock2(mutex_);
        free_.push_back(block);
      }
      const std::lock_guard lock2(callback_mutex_);
      if (callback_) callback_();
    });
  }
  void on_free(std::function<void()> callback) override {
    const std::lock_guard lock(callback_mutex_);
    callback_ = std::move(callback);
  }
  std::size_t capacity() const override { return count_; }
  std::size_t free_blocks() {
    const std::lock_guard lock(mutex_);
    return free_.size();
  }
  std::vector<std::uint64_t> asked;

 private:
  const std::size_t bytes_;
  const std::size_t count_;
  std::mutex mutex_;
  std::mutex callback_mutex_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<std::size_t> free_;
  std::function<void()> callback_;
};

TEST(LoaderBudgetTest, MemoryOfTheCallersOwnIsAskedInOrderAndGivenBack) {
  for (const std::size_t count : {1, 2, 5}) {
    const auto memory = std::make_shared<SmallMemory>(64, count);
    {
      const Runtime runtime({.threads = 2});
      Loader loader(runtime, numbers(20).batch(4), {.epoch_count = 2, .memory = memory});
      for (int epoch = 0; epoch < 2; ++epoch) {
        std::vector<std::int64_t> all = test::flat_epoch(loader);
        ASSERT_EQ(all.size(), 20u);
        for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(all[i], i * 10);
      }
    }
    EXPECT_THAT(memory->asked, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_EQ(memory->free_blocks(), count);
  }
}

TEST(LoaderBudgetTest, BlocksOfTheCallersMemoryThatTheCallerHoldsAreAnErrorNotAHang) {
  const auto memory = std::make_shared<SmallMemory>(64, 2);
  const Runtime runtime({.threads = 1});
  Loader loader(runtime, numbers(20).batch(4), {.epoch_count = 1, .memory = memory});
  std::optional<Batch> first = loader.next();
  const std::optional<Batch> second = loader.next();
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const BudgetHeldByCaller& error) {
    EXPECT_STREQ(error.what(),
                 "next: all 2 batches of this loader are held by the caller (2 x 64 = 128 bytes), none is left to be "
                 "filled; let one go, or let the batch memory lend more");
  }
  first.reset();
  EXPECT_EQ(test::values(*loader.next())[0], 80);
}

TEST(LoaderBudgetTest, NextWaitsForMemoryThatSomebodyElseGivesBack) {
  const auto memory = std::make_shared<SmallMemory>(64, 2);
  const Runtime runtime({.threads = 1});
  Loader loader(runtime, numbers(8).batch(4), {.epoch_count = 1, .memory = memory});
  std::optional<BatchLease> lent = memory->try_acquire(loader.layout(), 0);
  const std::optional<Batch> first = loader.next();
  EXPECT_FALSE(loader.poll());
  std::thread other([&] { lent.reset(); });
  EXPECT_EQ(test::values(*loader.next())[0], 40);
  other.join();
}

/// Two maps, of which the first waits at the gate with a buffer of 2,000 bytes, which its worker then keeps.
Pipeline with_buffers(std::size_t count, const Shape& row, test::Gate& gate) {
  return Pipeline(std::make_shared<BytesSource>(std::vector<std::int64_t>(count, 16)))
      .map("bytes", Output{DataType::kU8, {2000}},
           [&gate](View<const std::uint8_t>, View<std::uint8_t>) { gate.wait(); })
      .map("bytes", Output{DataType::kI64, row}, [](View<const std::uint8_t>, View<std::int64_t>) {});
}

TEST(LoaderBudgetTest, BuffersOfIdleWorkersMakeRoomForABatch) {
  const Runtime runtime({.threads = 4});
  test::Gate gate;
  Loader loader(runtime, with_buffers(16, {64}, gate).batch(4),
                {.epoch_count = 1, .max_sample_bytes = 3000, .block_size = 1});
  loader.warm_up();
  gate.await_arrivals(4);
  gate.open();
  while (loader.report().stages.back().count < 8) std::this_thread::yield();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(loader.next()->size(), 4u);
  EXPECT_FALSE(loader.next());
}

TEST(LoaderBudgetTest, BuffersOfAnotherLoadersIdleWorkersMakeRoomForARow) {
  const Runtime runtime({.threads = 3, .budget_bytes = 3 * 64 + 2500 + 3 * 64 + 5500});
  test::Gate gate;
  Loader idle(runtime, with_buffers(3, {}, gate).batch(4), {.epoch_count = 1, .max_sample_bytes = 2500});
  idle.warm_up();
  gate.await_arrivals(3);
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>(8, 5000));
  Loader loader(runtime, sums(source).batch(4), {.epoch_count = 1, .max_sample_bytes = 5500});
  loader.warm_up();
  gate.open();
  while (idle.report().stages.back().count < 3) std::this_thread::yield();
  EXPECT_EQ(test::flat_epoch(loader, "bytes").size(), 8u);
}

TEST(LoaderBudgetTest, BuffersOfAnotherLoadersIdleWorkersMakeRoomForABatch) {
  const Runtime runtime({.threads = 3, .budget_bytes = 3 * 64 + 2500 + 3 * 1600 + 100});
  test::Gate gate;
  Loader idle(runtime, with_buffers(3, {}, gate).batch(4), {.epoch_count = 1, .max_sample_bytes = 2500});
  idle.warm_up();
  gate.await_arrivals(3);
  gate.open();
  while (idle.report().stages.back().count < 3) std::this_thread::yield();
  Loader loader(runtime, numbers(200).batch(200), {.epoch_count = 1, .max_sample_bytes = 100});
  EXPECT_EQ(test::flat_epoch(loader).size(), 200u);
}

}  // namespace
}  // namespace penstock
