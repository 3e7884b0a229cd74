// What the consumer of a loader feels. Emulated accelerator: each step keeps it busy for a fixed time, and its
// utilisation is the share of time in steps, the first left out. Launching thread: how much longer its own work takes
// while a governed loader works beside it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/memory.h>

#include "checksum.h"
#include "cpu_time.h"

namespace {

using namespace penstock;
using Clock = std::chrono::steady_clock;

/// Work of a given CPU time, measured on the thread's own clock.
void burn(std::chrono::nanoseconds time) {
  const double end = bench::thread_cpu_seconds() + std::chrono::duration<double>(time).count();
  while (bench::thread_cpu_seconds() < end) benchmark::ClobberMemory();
}

Pipeline working(std::chrono::microseconds a_sample) {
  std::vector<std::int64_t> values(1 << 14);
  std::iota(values.begin(), values.end(), std::int64_t{0});
  return memory_columns(Schema({{"x", DataType::kI64, {}}}),
                        {Tensor::copy_of<std::int64_t>(values, Shape{static_cast<std::int64_t>(values.size())})})
      .map("x", [a_sample](std::int64_t x) {
        burn(a_sample);
        return x + 1;
      });
}

// A step of 10 ms for a batch of 64 that takes `range(0)` percent of what two threads can make in that time.
void AcceleratorUtilisation(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  const auto step = std::chrono::milliseconds(10);
  const std::chrono::microseconds a_sample(2 * 10'000 * state.range(0) / 100 / 64);
  double busy = 0;
  double all = 0;
  for (auto _ : state) {
    Loader loader(runtime, working(a_sample).batch(64).prefetch(3));
    benchmark::DoNotOptimize(loader.next());
    std::this_thread::sleep_for(step);
    const Clock::time_point begin = Clock::now();
    Clock::duration in_steps{0};
    for (int i = 0; i < 200; ++i) {
      const std::optional<Batch> batch = loader.next();
      benchmark::DoNotOptimize(bench::checksum(*batch));
      const Clock::time_point step_begin = Clock::now();
      std::this_thread::sleep_until(step_begin + step);
      in_steps += Clock::now() - step_begin;
    }
    busy += std::chrono::duration<double>(in_steps).count();
    all += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  state.counters["utilisation"] = busy / all;
}
BENCHMARK(AcceleratorUtilisation)
    ->ArgName("load_percent")
    ->Arg(25)
    ->Arg(50)
    ->Arg(75)
    ->Arg(90)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Median seconds of a step that works for 2 ms and sleeps for 3 ms, over `count` of them.
double step_seconds(int count) {
  std::vector<double> steps;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    burn(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    steps.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return median(std::move(steps));
}

// Pairs of 100 steps without and with a loader whose consumer, on a third thread, takes all it can get.
void LaunchingThread(benchmark::State& state) {
  const bool governed = state.range(0) != 0;
  RuntimeOptions options{.threads = 2};
  if (governed) options.governor = {.free_cores = 1, .max_utilisation = 1.0, .nice = 10};
  const Runtime runtime(options);
  std::vector<double> growth;
  for (auto _ : state) {
    for (int pair = 0; pair < 9; ++pair) {
      const double alone = step_seconds(100);
      std::jthread consumer([&](std::stop_token stop) {
        Loader loader(runtime, working(std::chrono::microseconds(50)).batch(64).prefetch(3));
        while (!stop.stop_requested()) benchmark::DoNotOptimize(loader.next());
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      growth.push_back(step_seconds(100) / alone - 1);
    }
  }
  std::sort(growth.begin(), growth.end());
  state.counters["growth_min"] = growth.front();
  state.counters["growth_median"] = median(growth);
  state.counters["growth_max"] = growth.back();
}
BENCHMARK(LaunchingThread)->ArgName("governed")->Arg(0)->Arg(1)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
