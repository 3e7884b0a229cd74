// Tiles are exactly those promised, from any thread, nested, and with exceptions.
#include <penstock/pipeline/parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

TEST(ParallelTest, EveryTileOnceWithItsBounds) {
  for (const std::size_t threads : {1, 2, 8}) {
    const Runtime runtime({.threads = threads});
    for (const std::int64_t n : {0, 1, 9, 10, 11, 1000}) {
      for (const std::int64_t tile : {1, 10, 3000}) {
        std::mutex mutex;
        std::multiset<std::pair<std::int64_t, std::int64_t>> seen;
        parallel_for(runtime, n, tile, [&](std::int64_t begin, std::int64_t end) {
          const std::lock_guard lock(mutex);
          seen.emplace(begin, end);
        });
        std::multiset<std::pair<std::int64_t, std::int64_t>> expected;
        for (std::int64_t begin = 0; begin < n; begin += tile) expected.emplace(begin, std::min(n, begin + tile));
        ASSERT_EQ(seen, expected) << threads << " threads, " << n << " in tiles of " << tile;
      }
    }
  }
}

TEST(ParallelTest, TakesMoreThreadsThanCoresWithoutAWord) {
  ::testing::internal::CaptureStderr();
  {
    const Runtime runtime({.threads = 4 * std::size_t{std::max(1U, std::thread::hardware_concurrency())}});
    parallel_for(runtime, 1000, 1, [](std::int64_t, std::int64_t) {});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "oneTBB says so when it gives fewer threads";
}

TEST(ParallelTest, AnExceptionIsRethrownAndTheArenaGoesOn) {
  for (const std::size_t threads : {1, 4}) {
    const Runtime runtime({.threads = threads});
    for (int round = 0; round < 10; ++round) {
      try {
        parallel_for(runtime, 100, 3, [](std::int64_t begin, std::int64_t) {
          if (begin == 30) throw std::runtime_error("tile 10");
        });
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "tile 10");
      }
      std::atomic<std::int64_t> sum{0};
      parallel_for(runtime, 100, 3, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      EXPECT_EQ(sum, 100);
    }
  }
}

TEST(ParallelTest, WorksFromManyThreadsAndNested) {
  const Runtime runtime({.threads = 3});
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> sum{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        parallel_for(runtime, 8, 1, [&](std::int64_t, std::int64_t) {
          parallel_for(runtime, 50, 7, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 6 * 20 * 8 * 50);
}

TEST(ParallelTest, RefusesEmptyTiles) {
  const Runtime runtime({.threads = 1});
  try {
    parallel_for(runtime, 1, 0, [](std::int64_t, std::int64_t) {});
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "parallel_for: tiles of 0; at least 1 is needed");
  }
}

}  // namespace
}  // namespace penstock
