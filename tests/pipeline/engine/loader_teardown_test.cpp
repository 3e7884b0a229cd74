// Leaving is normal: at any moment, from any thread, quickly, and nothing runs afterwards.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/gate.h"
#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::Gate;
using test::numbers;

std::size_t thread_count() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("Threads:", 0) == 0) return std::stoul(line.substr(8));
  }
  return 0;
}

TEST(LoaderTeardownTest, LeavingAHundredTimesWithFullQueuesIsQuickAndFinal) {
  const Runtime runtime({.threads = 3});
  for (int round = 0; round < 100; ++round) {
    Gate gate;
    std::atomic<std::size_t> calls{0};
    std::optional<Loader> loader;
    loader.emplace(runtime,
                   numbers(200)
                       .map("x",
                            [&](std::int64_t x) {
                              ++calls;
                              if (x >= 80) gate.wait();
                              return x;
                            })
                       .batch(8)
                       .prefetch(8),
                   LoaderOptions{.block_size = static_cast<std::size_t>(round % 9)});
    ASSERT_TRUE(loader->next());
    gate.await_arrivals(1);
    const auto begin = std::chrono::steady_clock::now();
    std::thread opener([&] { gate.open(); });
    loader.reset();
    const std::size_t at_end = calls;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    opener.join();
    EXPECT_EQ(calls, at_end);
    EXPECT_LT(at_end, 200u);
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(LoaderTeardownTest, LeavingWithReadyBatchesThatNobodyTook) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 50; ++round) {
    Loader loader(runtime, numbers(1000).batch(8).prefetch(4), {});
    loader.warm_up();
    if (round % 2 == 0) {
      ASSERT_TRUE(loader.next());
    }
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(LoaderTeardownTest, ALoaderThatWasNeverAskedDoesNothing) {
  const Runtime runtime({.threads = 2});
  std::atomic<int> calls{0};
  {
    const Loader loader(runtime,
                        numbers(10)
                            .map("x",
                                 [&](std::int64_t x) {
                                   ++calls;
                                   return x;
                                 })
                            .batch(2),
                        {});
  }
  EXPECT_EQ(calls, 0);
}

TEST(LoaderTeardownTest, LeavingWhileReadsAreOnTheirWay) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  std::vector<std::thread> readers;
  std::mutex mutex;
  const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>(20, 4));
  source->finish = [&](Sink& sink) {
    const std::lock_guard lock(mutex);
    readers.emplace_back([&gate, &sink] {
      gate.wait();
      sink.done();
    });
  };
  {
    Loader loader(runtime,
                  Pipeline(source)
                      .map("bytes", Output{DataType::kU8, {1}},
                           [](View<const std::uint8_t> in, View<std::uint8_t> out) { out[0] = in[0]; })
                      .batch(4),
                  {});
    loader.warm_up();
    gate.await_arrivals(8);
    gate.open();
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(readers.size(), 8u);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(LoaderTeardownTest, ReadsThatEndOnOtherThreadsGiveTheSameBatches) {
  const Runtime runtime({.threads = 3});
  std::vector<std::jthread> readers;
  std::mutex mutex;
  const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>(60, 4));
  source->finish = [&](Sink& sink) {
    const std::lock_guard lock(mutex);
    readers.emplace_back([&sink] { sink.done(); });
  };
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kI64, {}},
                                     [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[1]; })
                                .batch(7);
  Loader loader(runtime, pipeline, {.epoch_count = 1});
  const std::vector<std::int64_t> all = test::flat_epoch(loader, "bytes");
  ASSERT_EQ(all.size(), 60u);
  for (std::int64_t i = 0; i < 60; ++i) EXPECT_EQ(all[i], i + 1);
}

TEST(LoaderTeardownTest, StopFromAnotherThreadEndsAWaitingNext) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Loader loader(runtime,
                numbers(10)
                    .map("x",
                         [&](std::int64_t x) {
                           gate.wait();
                           return x;
                         })
                    .batch(2),
                {});
  std::thread other([&] {
    gate.await_arrivals(1);
    loader.stop();
  });
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const Stopped& error) {
    EXPECT_STREQ(error.what(), "next: the loader was stopped");
  }
  other.join();
  EXPECT_THROW(loader.next(), Stopped);
  EXPECT_TRUE(loader.poll()->error);
  gate.open();
}

TEST(LoaderTeardownTest, AStopTokenEndsTheWaitAndTheLoaderGoesOn) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Loader loader(runtime,
                numbers(10)
                    .map("x",
                         [&](std::int64_t x) {
                           gate.wait();
                           return x;
                         })
                    .batch(2),
                {});
  std::stop_source source;
  std::thread other([&] {
    gate.await_arrivals(1);
    source.request_stop();
  });
  EXPECT_THROW(loader.next(source.get_token()), Stopped);
  other.join();
  gate.open();
  EXPECT_EQ(test::flat_epoch(loader).size(), 10u) << "nothing is lost";
}

TEST(LoaderTeardownTest, TwoThreadsInNextAreToldOff) {
  const Runtime runtime({.threads = 1});
  Gate gate;
  Loader loader(runtime,
                numbers(4)
                    .map("x",
                         [&](std::int64_t x) {
                           gate.wait();
                           return x;
                         })
                    .batch(2),
                {});
  std::thread first([&] { EXPECT_TRUE(loader.next()); });
  gate.await_arrivals(1);
  EXPECT_THROW(loader.poll(), std::logic_error);
  gate.open();
  first.join();
}

TEST(LoaderTeardownTest, AnExceptionOutOfTheLoopLeavesNothingBehind) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(
        {
          Loader loader(runtime, numbers(100).batch(4), {});
          while (const auto batch = loader.next()) throw std::runtime_error("left");
        },
        std::runtime_error);
  }
  Loader loader(runtime, numbers(100).batch(4), {});
  EXPECT_EQ(test::flat_epoch(loader).size(), 100u);
}

TEST(LoaderTeardownTest, LoadersInsideAnotherArenaNeitherHangNorGrowTheThreads) {
  const std::size_t before = thread_count();
  tbb::task_arena arena(8);
  std::size_t most = 0;
  arena.execute([&] {
    const Runtime runtime({.threads = 3, .io_threads = 2});
    tbb::parallel_for(0, 8, [&](int) {
      Loader a(runtime, numbers(50).batch(4), {.epoch_count = 1});
      Loader b(runtime, numbers(60).batch(4), {.epoch_count = 1});
      EXPECT_EQ(test::flat_epoch(a).size(), 50u);
      EXPECT_TRUE(b.next());
    });
    Loader a(runtime, numbers(50).batch(4), {.epoch_count = 1});
    Loader b(runtime, numbers(50).batch(4), {.epoch_count = 1});
    EXPECT_EQ(test::flat_epoch(a).size(), 50u);
    EXPECT_EQ(test::flat_epoch(b).size(), 50u);
    most = thread_count();
  });
  // Three workers and two I/O threads; what oneTBB itself started for the outer parallel_for is bounded by the machine.
  EXPECT_LE(most, before + 3 + 2 + std::thread::hardware_concurrency());
}

TEST(LoaderTeardownTest, ThreadsAreThoseAskedForWithTwoLoaders) {
  std::thread([] {}).join();  // with a program's first thread, the thread sanitizer starts one of its own
  const std::size_t before = thread_count();
  const Runtime runtime({.threads = 3, .io_threads = 2});
  Loader a(runtime, numbers(32).batch(4), {.epoch_count = 1});
  Loader b(runtime, numbers(32).batch(4), {.epoch_count = 1});
  EXPECT_EQ(test::flat_epoch(a).size(), 32u);
  EXPECT_EQ(test::flat_epoch(b).size(), 32u);
  EXPECT_LE(thread_count(), before + 5);
}

TEST(LoaderTeardownTest, ALoaderMayRunInsideAMapOfAnother) {
  const Runtime runtime({.threads = 2});
  const Pipeline outer = numbers(6).map("x", [&](std::int64_t x) {
    const Runtime inner({.threads = 1, .io_threads = 1});
    Loader loader(inner, numbers(5).batch(2), {.epoch_count = 1});
    std::int64_t sum = x;
    for (const std::int64_t value : test::flat_epoch(loader)) sum += value;
    return sum;
  });
  Loader loader(runtime, outer.batch(3), {.epoch_count = 1});
  EXPECT_EQ(test::flat_epoch(loader), (std::vector<std::int64_t>{100, 110, 120, 130, 140, 150}));
}

// Workers that look for room for one loader hold the others too: what a map holds must not end on one of them.
TEST(LoaderTeardownTest, AMapMayHoldTheLastHandleOnItsRuntime) {
  for (int round = 0; round < 1000; ++round) {
    std::optional<Runtime> runtime(std::in_place,
                                   RuntimeOptions{.threads = 4, .budget_bytes = 3 * 128 + 300, .io_threads = 1});
    const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>(40, 200));
    Loader loader(*runtime,
                  Pipeline(source)
                      .map("bytes", Output{DataType::kI64, {}},
                           [held = *runtime](View<const std::uint8_t>, View<std::int64_t> out) { out[0] = 7; })
                      .batch(1 + round % 9),
                  {.epoch_count = 1, .max_sample_bytes = 300, .block_size = 1});
    runtime.reset();
    for (int i = 0; i < round % 5; ++i) EXPECT_EQ(test::values(*loader.next(), "bytes")[0], 7);
  }
}

TEST(LoaderTeardownTest, ALoaderMovesAndTheOldOneIsReplaced) {
  const Runtime runtime({.threads = 2});
  Loader a(runtime, numbers(6).batch(2), {.epoch_count = 1});
  ASSERT_TRUE(a.next());
  Loader b = std::move(a);
  EXPECT_EQ(test::values(*b.next())[0], 20);
  b = Loader(runtime, numbers(2).batch(2), {.epoch_count = 1});
  EXPECT_EQ(test::flat_epoch(b).size(), 2u);
}

}  // namespace
}  // namespace penstock
