// Autotuning where it matters on any machine: storage with 5 ms of latency and 32 channels, read through a loader whose
// knobs begin as badly as can be, against the best of a grid of fixed settings.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include <benchmark/benchmark.h>
#include <penstock/pipeline/loader.h>

#include "latency_source.h"

namespace {

using namespace penstock;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Pipeline slow_pipeline() {
  const auto source =
      std::make_shared<bench::LatencySource>(std::uint64_t{1} << 40, std::chrono::milliseconds(5), std::size_t{32});
  return Pipeline(source).map("x", [](std::int64_t x) { return x + 1; }).batch(16);
}

/// Samples per second over `seconds`, after the first `warm` seconds.
double rate(Loader& loader, double warm, double seconds) {
  Clock::time_point begin = Clock::now();
  while (seconds_since(begin) < warm) benchmark::DoNotOptimize(loader.next());
  std::uint64_t samples = 0;
  begin = Clock::now();
  while (seconds_since(begin) < seconds) samples += loader.next()->size();
  return static_cast<double>(samples) / seconds_since(begin);
}

double best_of_grid(const Runtime& runtime) {
  double best = 0;
  for (std::size_t reads = 1; reads <= 64; reads *= 2) {
    for (const std::size_t ahead : {1, 2, 4, 8}) {
      Loader loader(runtime, slow_pipeline().prefetch(ahead), {.block_size = 4, .reads_in_flight = reads});
      best = std::max(best, rate(loader, 0.1, 0.4));
    }
  }
  return best;
}

void AutotuneFromBadSettings(benchmark::State& state) {
  const Runtime runtime({.threads = 2});
  const double best = best_of_grid(runtime);
  for (auto _ : state) {
    Loader loader(runtime, slow_pipeline().prefetch(1),
                  {.block_size = 1, .reads_in_flight = 1, .autotune = {.enabled = true}});
    const Clock::time_point begin = Clock::now();
    double reached_after = 30;
    while (seconds_since(begin) < 30) {
      if (rate(loader, 0, 0.5) >= 0.97 * best) {
        reached_after = std::min(reached_after, seconds_since(begin));
        if (seconds_since(begin) > reached_after + 5) break;  // and it stays there
      }
    }
    state.counters["share_of_best"] = rate(loader, 0, 2) / best;
    state.counters["seconds_to_97%"] = reached_after;
    state.counters["decisions"] = static_cast<double>(loader.report().decisions.size());
  }
  state.counters["best_of_grid/s"] = best;
}

BENCHMARK(AutotuneFromBadSettings)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
