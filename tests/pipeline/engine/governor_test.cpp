// How many workers run at once, how much of the time, and who goes first when several loaders share them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <penstock/pipeline/engine/worker_gate.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::numbers;

/// Counts how many calls are inside at once.
class Crowd {
 public:
  void enter() {
    const int now = inside_.fetch_add(1) + 1;
    int most = most_.load();
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  void leave() { inside_.fetch_sub(1); }
  int most() const { return most_; }

 private:
  std::atomic<int> inside_{0};
  std::atomic<int> most_{0};
};

Pipeline crowded(std::uint64_t count, Crowd& crowd) {
  return numbers(count)
      .map("x",
           [&crowd](std::int64_t x) {
             crowd.enter();
             for (int i = 0; i < 5; ++i) std::this_thread::yield();
             crowd.leave();
             return x;
           })
      .batch(4);
}

TEST(WorkerGateTest, LetsNoMoreInThanItsLimit) {
  engine::WorkerGate gate(2);
  EXPECT_TRUE(gate.enter());
  EXPECT_TRUE(gate.enter());
  EXPECT_TRUE(gate.is_full());
  EXPECT_FALSE(gate.enter());
  gate.leave();
  EXPECT_FALSE(gate.is_full());
  gate.set_limit(1);
  EXPECT_FALSE(gate.enter());
}

TEST(UtilisationDebtTest, OwesTheRestOfTheTimeInPieces) {
  using std::chrono::milliseconds;
  engine::UtilisationDebt debt(0.25);
  debt.busy(std::chrono::microseconds(100));
  EXPECT_EQ(debt.take().count(), 0);
  debt.busy(std::chrono::microseconds(900));
  EXPECT_EQ(debt.take(), milliseconds(3));
  debt.busy(milliseconds(10));
  EXPECT_EQ(debt.take(), milliseconds(20));
  EXPECT_EQ(debt.take(), milliseconds(10));
  EXPECT_EQ(debt.take().count(), 0);
  engine::UtilisationDebt full(1.0);
  full.busy(milliseconds(500));
  EXPECT_EQ(full.take().count(), 0);
}

TEST(GovernorTest, NoMoreWorkersRunThanAreActiveAndNothingIsLost) {
  const Runtime runtime({.threads = 6});
  EXPECT_EQ(runtime.active_threads(), 6u);
  for (const std::size_t active : {1U, 2U, 4U}) {
    Crowd crowd;
    runtime.set_active_threads(active);
    Loader loader(runtime, crowded(400, crowd), {.epoch_count = 1, .block_size = 1});
    std::vector<std::int64_t> got = test::flat_epoch(loader);
    EXPECT_EQ(got.size(), 400u);
    EXPECT_LE(crowd.most(), static_cast<int>(active));
  }
  runtime.set_active_threads(100);
  EXPECT_EQ(runtime.active_threads(), 6u);
  runtime.set_active_threads(0);
  EXPECT_EQ(runtime.active_threads(), 1u);
}

TEST(GovernorTest, TheCountMayChangeAtAnyMoment) {
  const Runtime runtime({.threads = 4});
  Crowd crowd;
  Loader loader(runtime, crowded(2000, crowd), {.epoch_count = 1, .block_size = 1});
  std::vector<std::int64_t> got;
  for (std::size_t k = 0; const std::optional<Batch> batch = loader.next(); ++k) {
    runtime.set_active_threads(1 + k % 4);
    for (const std::int64_t value : test::values(*batch)) got.push_back(value);
  }
  ASSERT_EQ(got.size(), 2000u);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
}

TEST(GovernorTest, FreeCoresLimitTheWorkersButLeaveOne) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const Runtime one({.threads = 4, .governor = {.free_cores = 1000}});
  EXPECT_EQ(one.active_threads(), 1u);
  const Runtime most({.threads = 4, .governor = {.free_cores = 1}});
  EXPECT_EQ(most.active_threads(), std::clamp<std::size_t>(cores - 1, 1, 4));
}

TEST(GovernorTest, NiceAndUtilisationChangeNothingInTheBatches) {
  const Runtime plain({.threads = 2});
  const Runtime governed({.threads = 2, .governor = {.free_cores = 1, .max_utilisation = 0.5, .nice = 5}});
  std::atomic<int> nice{0};
  const Pipeline pipeline = numbers(100).map("x", [&nice](std::int64_t x) {
    nice = getpriority(PRIO_PROCESS, 0);
    return x * 3;
  });
  Loader a(plain, pipeline.batch(7), {.epoch_count = 1});
  const std::vector<std::int64_t> expected = test::flat_epoch(a);
  EXPECT_EQ(nice, getpriority(PRIO_PROCESS, 0));
  Loader b(governed, pipeline.batch(7), {.epoch_count = 1});
  EXPECT_EQ(test::flat_epoch(b), expected);
  EXPECT_EQ(nice, std::min(19, getpriority(PRIO_PROCESS, 0) + 5));
}

TEST(GovernorTest, RefusesSharesThatAreNone) {
  const auto message = [](const Governor& governor) -> std::string {
    try {
      const Runtime runtime({.threads = 1, .governor = governor});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message({.max_utilisation = 0}),
            "runtime: the governor's max_utilisation is 0.000000; a share above 0 and up to 1 is needed");
  EXPECT_EQ(message({.max_utilisation = 1.5}),
            "runtime: the governor's max_utilisation is 1.500000; a share above 0 and up to 1 is needed");
  EXPECT_EQ(message({.nice = 20}), "runtime: the governor's nice is 20; 0 to 19 are possible");
}

TEST(GovernorTest, ThreeLoadersUnderATinyBudgetAllEnd) {
  const std::uint64_t sample = 4096;
  // Three guaranteed shares: three blocks of one row of 8 bytes each, and a largest sample; 64 bytes are over.
  const Runtime runtime({.threads = 3, .budget_bytes = 3 * (sample + 3 * 64) + 64});
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int i = 0; i < 3; ++i) {
    loaders.push_back(
        std::make_unique<Loader>(runtime, numbers(300).map("x", [](std::int64_t x) { return x + 1; }).batch(1),
                                 LoaderOptions{.epoch_count = 1, .priority = i, .max_sample_bytes = sample}));
  }
  std::vector<std::size_t> delivered(3);
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < 3; ++i) {
      if (const std::optional<Batch> batch = loaders[i]->next()) {
        EXPECT_EQ(test::values(*batch).front(), 10 * static_cast<std::int64_t>(delivered[i]) + 1);
        ++delivered[i];
        more = true;
      }
    }
  }
  EXPECT_EQ(delivered, (std::vector<std::size_t>{300, 300, 300}));
  EXPECT_LE(runtime.peak_in_flight_bytes(), runtime.budget_bytes());
}

}  // namespace
}  // namespace penstock
