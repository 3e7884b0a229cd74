// Leaving a loop in every way there is, a hundred times each: quick, and nothing stays behind, neither a thread nor an
// open file nor a sample that is still worked on.
#include <penstock/pipeline/loader.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>

#include <penstock/pipeline/error.h>

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

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// What a plan is made of besides its slow map: flat plans and streams have engines of their own.
enum class Kind { kFlat, kStream };

void PrintTo(Kind kind, std::ostream* out) { *out << (kind == Kind::kFlat ? "flat" : "stream"); }

class LeavingTest : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr int kRounds = 100;

  /// 200 numbers whose map counts its calls, and stands at the gate from number 30 on.
  Pipeline slow(Gate& gate) {
    Pipeline pipeline = numbers(200).map("x", [this, &gate](std::int64_t x) {
      ++calls_;
      if (x >= 300) gate.wait();
      return x;
    });
    if (GetParam() == Kind::kStream) pipeline = pipeline.filter("x", [](std::int64_t x) { return x != 20; });
    return pipeline.batch(8).prefetch(8);
  }

  /// Begins a loader on a runtime of its own, calls `leave` with it, which may leave by an exception, and ends both.
  void repeat(const std::function<void(Loader& loader, Gate& gate)>& leave) {
    std::thread([] {}).join();  // with a program's first thread, the thread sanitizer starts one of its own
    const std::size_t threads = thread_count();
    const std::size_t files = open_files();
    for (int round = 0; round < kRounds; ++round) {
      Gate gate;
      calls_ = 0;
      std::chrono::steady_clock::time_point begin;
      const Runtime runtime({.threads = 3, .io_threads = 2});
      std::thread opener;
      try {
        Loader loader(runtime, slow(gate));
        ASSERT_TRUE(loader.next());
        gate.await_arrivals(1);
        // From here on the slow map ends as soon as it is let: the loader has to wait for what has begun.
        opener = std::thread([&] { gate.open(); });
        begin = std::chrono::steady_clock::now();
        leave(loader, gate);
      } catch (const std::runtime_error&) {
      }
      const std::size_t at_end = calls_;
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
      EXPECT_EQ(runtime.in_flight_bytes(), 0u);
      opener.join();
      EXPECT_EQ(calls_, at_end) << "a sample was processed after the end";
    }
    EXPECT_EQ(thread_count(), threads);
    EXPECT_EQ(open_files(), files);
  }

  std::atomic<std::size_t> calls_{0};
};

TEST_P(LeavingTest, ByBreak) {
  repeat([](Loader& loader, Gate&) {
    for (const Batch& batch : loader.epoch()) {
      EXPECT_LE(batch.size(), 8u);
      break;
    }
  });
}

TEST_P(LeavingTest, ByAnException) {
  repeat([](Loader& loader, Gate&) {
    while (const std::optional<Batch> batch = loader.next()) throw std::runtime_error("left");
  });
}

TEST_P(LeavingTest, ByTheDestructorWithFullQueues) {
  repeat([](Loader&, Gate&) {});
}

TEST_P(LeavingTest, ByStopFromAnotherThread) {
  repeat([](Loader& loader, Gate&) {
    std::thread other([&] { loader.stop(); });
    EXPECT_THROW(for (;;) loader.next(), Stopped);
    other.join();
  });
}

TEST_P(LeavingTest, WithACallbackThatWaits) {
  repeat([](Loader& loader, Gate&) { loader.on_next([](const NextResult&) {}); });
}

TEST_P(LeavingTest, AtAnyMoment) {
  std::thread([] {}).join();
  const std::size_t threads = thread_count();
  for (int round = 0; round < kRounds; ++round) {
    Gate gate;
    gate.open();
    calls_ = 0;
    const Runtime runtime({.threads = 3, .io_threads = 1});
    {
      Loader loader(runtime, slow(gate));
      loader.warm_up();
      for (int i = 0; i < round % 11; ++i) std::this_thread::yield();
      for (int i = 0; i < round % 4; ++i) EXPECT_TRUE(loader.next());
    }
    const std::size_t at_end = calls_;
    EXPECT_EQ(runtime.in_flight_bytes(), 0u);
    std::this_thread::yield();
    EXPECT_EQ(calls_, at_end);
  }
  EXPECT_EQ(thread_count(), threads);
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kFlat ? "Flat" : "Stream";
}

INSTANTIATE_TEST_SUITE_P(Engines, LeavingTest, ::testing::Values(Kind::kFlat, Kind::kStream), kind_name);

}  // namespace
}  // namespace penstock
