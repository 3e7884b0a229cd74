// How long the consumer waits: for a batch that is ready, with idle and with busy workers, and where one epoch, or one
// loader, follows another. The consumer's step is a sleep, long enough for the buffers to fill again.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/memory.h>

namespace {

using namespace penstock;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 32;
constexpr auto kStep = std::chrono::milliseconds(1);

// Numbers through a map of about a microsecond.
Pipeline work(std::int64_t count, std::int64_t steps) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), std::int64_t{0});
  return memory_columns(Schema({{"x", DataType::kI64, {}}}), {Tensor::copy_of<std::int64_t>(values, Shape{count})})
      .map("x",
           [steps](std::int64_t x) {
             auto value = static_cast<std::uint64_t>(x);
             for (std::int64_t i = 0; i < steps; ++i) value = value * 6364136223846793005U + 1;
             return static_cast<std::int64_t>(value);
           })
      .batch(kBatch);
}

constexpr std::int64_t kShort = 1'000;
constexpr std::int64_t kLong = 10'000;

// The next result, and how long it took, in microseconds.
struct Taken {
  std::optional<Batch> batch;
  double us;
};

Taken take(Loader& loader) {
  const Clock::time_point begin = Clock::now();
  std::optional<Batch> batch = loader.next();
  return {std::move(batch), std::chrono::duration<double, std::micro>(Clock::now() - begin).count()};
}

void report(benchmark::State& state, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto quantile = [&](double q) { return us[static_cast<std::size_t>(q * static_cast<double>(us.size() - 1))]; };
  state.counters["p50_us"] = quantile(0.5);
  state.counters["p99_us"] = quantile(0.99);
  state.counters["max_us"] = us.back();
}

void take_with_pauses(benchmark::State& state, const Runtime& runtime, std::size_t count) {
  Loader loader(runtime, work(1 << 20, kShort).prefetch(4), {.priority = 1});
  loader.warm_up();
  std::vector<double> us;
  for (auto _ : state) {
    std::this_thread::sleep_for(10 * kStep);
    for (std::size_t i = 0; i < count; ++i) {
      const Taken taken = take(loader);
      benchmark::DoNotOptimize(taken.batch->data());
      us.push_back(taken.us);
      std::this_thread::sleep_for(kStep);
    }
  }
  report(state, std::move(us));
}

void NextIdle(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  take_with_pauses(state, runtime, 1000);
}

// Another loader, whose consumer takes all it can get, keeps both workers busy.
void NextUnderLoad(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  Loader other(runtime, work(1 << 20, kLong), {});
  std::jthread consumer([&other](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const auto batch = other.next()) benchmark::DoNotOptimize(batch->data());
    }
  });
  take_with_pauses(state, runtime, 1000);
}

// From asking for more after an epoch's last batch to the next epoch's first.
void EpochSeam(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, work(10 * kBatch, kShort).prefetch(4), {});
  std::vector<double> us;
  for (auto _ : state) {
    for (int epoch = 0; epoch < 40; ++epoch) {
      for (;;) {
        const Taken taken = take(loader);
        if (taken.batch) {
          std::this_thread::sleep_for(kStep);
          continue;
        }
        us.push_back(taken.us + take(loader).us);
        std::this_thread::sleep_for(kStep);
        break;
      }
    }
  }
  report(state, std::move(us));
}

// From one loader's last batch to the other's first, and back: a training epoch, then a validation epoch.
void TrainValidationSeam(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  Loader train(runtime, work(10 * kBatch, kShort).prefetch(4), {.priority = 1});
  Loader validation(runtime, work(6 * kBatch, kShort).prefetch(4), {});
  validation.warm_up();
  std::vector<double> us;
  bool first = true;
  double waited = 0;
  const auto epoch = [&](Loader& loader) {
    for (bool begins = true;; begins = false) {
      const Taken taken = take(loader);
      if (begins && !first) us.push_back(waited + taken.us);
      first = false;
      waited = taken.us;
      if (!taken.batch) return;
      std::this_thread::sleep_for(kStep);
    }
  };
  for (auto _ : state) {
    for (int round = 0; round < 20; ++round) {
      epoch(train);
      epoch(validation);
    }
  }
  report(state, std::move(us));
}

BENCHMARK(NextIdle)->Name("Next/full/idle/threads:2")->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(NextUnderLoad)->Name("Next/full/load/threads:2")->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(EpochSeam)->Name("Seam/epoch/threads:2")->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(TrainValidationSeam)
    ->Name("Seam/train-validation/threads:2")
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
