#include <penstock/pipeline/mutex.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct Counter {
  Mutex mutex;
  int value PENSTOCK_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, LetsOneThreadInAtATime) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        const MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 80'000);
}

}  // namespace
}  // namespace penstock
