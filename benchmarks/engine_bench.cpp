// What the engine itself costs: a number, plus one in a map that is called for every element, ordered, batches of 256,
// every byte read by the consumer. Beside it the same loop without a pipeline, and with parallel_for alone. And what is
// lost when each element is real work: bodies of a known length, even and with a heavy tail, against the same bodies in
// bare threads, measured in turns in the same run.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/parallel.h>
#include <penstock/pipeline/source/memory.h>

#include "checksum.h"
#include "cpu_time.h"

namespace {

using namespace penstock;

constexpr std::int64_t kElements = std::int64_t{1} << 21;

const Pipeline& numbers() {
  static const Pipeline pipeline = [] {
    std::vector<std::int64_t> values(kElements);
    std::iota(values.begin(), values.end(), std::int64_t{0});
    return memory_columns(Schema({{"x", DataType::kI64, {}}}),
                          {Tensor::copy_of<std::int64_t>(values, Shape{kElements})});
  }();
  return pipeline;
}

void report(benchmark::State& state, double cpu) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kElements);
  const double elements = static_cast<double>(state.iterations()) * static_cast<double>(kElements);
  state.counters["cpu_ns/element"] = 1e9 * cpu / elements;
  state.counters["ns/element"] =
      benchmark::Counter(elements * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void NullPipeline(benchmark::State& state) {
  const Runtime runtime({.threads = static_cast<std::size_t>(state.range(0))});
  const Pipeline pipeline = numbers().map("x", [](std::int64_t x) { return x + 1; }).batch(256).prefetch(16);
  const double before = bench::cpu_seconds();
  std::uint64_t sum = 0;
  for (auto _ : state) {
    Loader loader(runtime, pipeline, {.epoch_count = 1});
    while (const std::optional<Batch> batch = loader.next()) sum += bench::checksum(*batch);
  }
  benchmark::DoNotOptimize(sum);
  report(state, bench::cpu_seconds() - before);
}

void ParallelFor(benchmark::State& state) {
  const Runtime runtime({.threads = static_cast<std::size_t>(state.range(0))});
  std::vector<std::int64_t> values(kElements);
  const double before = bench::cpu_seconds();
  for (auto _ : state) {
    parallel_for(runtime, kElements, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] = i + 1;
    });
    benchmark::DoNotOptimize(values.data());
    benchmark::ClobberMemory();
  }
  report(state, bench::cpu_seconds() - before);
}

constexpr std::size_t kThreads = 2;

// Work that takes as long each time: a chain of multiplications.
std::int64_t spin(std::int64_t x, std::int64_t steps) {
  auto value = static_cast<std::uint64_t>(x) | 1;
  for (std::int64_t i = 0; i < steps; ++i) value = value * 6364136223846793005U + 1442695040888963407U;
  return static_cast<std::int64_t>(value);
}

// Steps that take a microsecond.
std::int64_t steps_a_microsecond() {
  static const std::int64_t steps = [] {
    constexpr std::int64_t kTry = 20'000'000;
    const double before = bench::cpu_seconds();
    benchmark::DoNotOptimize(spin(1, kTry));
    return static_cast<std::int64_t>(static_cast<double>(kTry) * 1e-6 / (bench::cpu_seconds() - before));
  }();
  return steps;
}

// The bodies alone: each thread every second element.
double bare_cpu(std::int64_t count, const std::function<std::int64_t(std::int64_t)>& body) {
  const double before = bench::cpu_seconds();
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (auto x = static_cast<std::int64_t>(t); x < count; x += kThreads) benchmark::DoNotOptimize(body(x));
      });
    }
  }
  return bench::cpu_seconds() - before;
}

// `overhead_%`: of the process's processor time, what was not spent in bodies; `busy_%`: of two cores.
void run_work(benchmark::State& state, std::int64_t count, const std::function<std::int64_t(std::int64_t)>& body,
              std::size_t batches_ahead) {
  using Clock = std::chrono::steady_clock;
  const Runtime runtime({.threads = kThreads});
  const Pipeline pipeline = numbers().take(static_cast<std::uint64_t>(count)).map("x", body).batch(256);
  double bare = 0;
  double cpu = 0;
  double wall = 0;
  std::uint64_t sum = 0;
  for (auto _ : state) {
    state.PauseTiming();
    bare += bare_cpu(count, body);
    state.ResumeTiming();
    Loader loader(runtime, pipeline.prefetch(batches_ahead), {.epoch_count = 1});
    const double before = bench::cpu_seconds();
    const Clock::time_point begin = Clock::now();
    while (const std::optional<Batch> batch = loader.next()) sum += bench::checksum(*batch);
    cpu += bench::cpu_seconds() - before;
    wall += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * count);
  state.counters["overhead_%"] = 100 * (1 - bare / cpu);
  state.counters["busy_%"] = 100 * cpu / (kThreads * wall);
}

void Work(benchmark::State& state) {
  const std::int64_t steps = state.range(0) * steps_a_microsecond();
  const std::int64_t count = 400'000 / state.range(0);
  run_work(state, count, [steps](std::int64_t x) { return spin(x, steps); }, 4);
}

// One element in a hundred takes a hundred times as long as the others.
void HeavyTail(benchmark::State& state) {
  const std::int64_t steps = state.range(0) * steps_a_microsecond();
  const std::int64_t count = 200'000 / state.range(0);
  run_work(
      state, count,
      [steps](std::int64_t x) {
        const bool slow = (static_cast<std::uint64_t>(x) * 0x9E3779B97F4A7C15U >> 32) % 100 == 0;
        return spin(x, slow ? 100 * steps : steps);
      },
      16);
}

BENCHMARK(NullPipeline)->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Work)
    ->Name("Work/threads:2")
    ->ArgName("us")
    ->Arg(10)
    ->Arg(100)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(HeavyTail)
    ->Name("HeavyTail/threads:2")
    ->ArgName("us")
    ->Arg(10)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(ParallelFor)->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
