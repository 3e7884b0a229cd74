// Resuming: how large the state is, and how long the first batch takes from 10 % and from 90 % of an epoch of a
// shuffled, augmented pipeline over a million samples; source reads before the first batch are counted.
#include <cstdint>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>
#include <penstock/pipeline/loader.h>

#include "latency_source.h"

namespace {

using namespace penstock;

constexpr std::uint64_t kSamples = 1'000'000;

void FirstBatchAfterResume(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  const auto source = std::make_shared<bench::LatencySource>(kSamples, std::chrono::microseconds(100), std::size_t{64});
  const Pipeline pipeline =
      Pipeline(source)
          .shuffle({.seed = 7})
          .map("x", [](std::int64_t x, Draw& draw) { return x + static_cast<std::int64_t>(draw.below(1000)); })
          .batch(256);
  const std::uint64_t slot = kSamples / 256 * static_cast<std::uint64_t>(state.range(0)) / 100 * 256;
  std::string text;
  {
    const Loader loader(runtime, pipeline);
    text = loader.state(Position{3, slot});
  }
  std::uint64_t reads = 0;
  for (auto _ : state) {
    const std::uint64_t before = source->reads();
    Loader loader(runtime, pipeline, {.epoch_count = 4, .start = read_state(pipeline, text)});
    benchmark::DoNotOptimize(loader.next());
    reads = source->reads() - before;
  }
  state.counters["state_bytes"] = static_cast<double>(text.size());
  state.counters["reads"] = static_cast<double>(reads);
}
BENCHMARK(FirstBatchAfterResume)->ArgName("percent")->Arg(10)->Arg(90)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
