// What the engine itself costs: a number, plus one in a map that is called for every element, ordered, batches of 256,
// every byte read by the consumer. Beside it the same loop without a pipeline, and with parallel_for alone.
#include <cstddef>
#include <cstdint>
#include <numeric>
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

BENCHMARK(NullPipeline)->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(ParallelFor)->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
