// What the evaluation chain keeps in memory, alone in its process: the largest resident set, at batch 64 on two
// threads; and whether both cores are busy: wall rate against the rate of one processor second. The folder of photos is
// named by PENSTOCK_PHOTOS; make_photos.py makes one.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <benchmark/benchmark.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/image_folder.h>

#include "checksum.h"
#include "cpu_time.h"

namespace {

// VmHWM of /proc/self/status, in MB (10^6 bytes).
double most_resident_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) * 1024e-6;
  }
  return 0;
}

void EvalChain(benchmark::State& state) {
  using namespace penstock;
  using Clock = std::chrono::steady_clock;
  const char* const folder = std::getenv("PENSTOCK_PHOTOS");
  if (folder == nullptr) return state.SkipWithError("set PENSTOCK_PHOTOS");
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline =
      image_folder(folder)
          .map(decode_image())
          .map(resize_short_side(256))
          .map(center_crop(224, 224))
          .map(normalise({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}, {.layout = Layout::kChw}))
          .batch(64);
  std::uint64_t sum = 0;
  std::size_t images = 0;
  const double before = bench::cpu_seconds();
  const Clock::time_point begin = Clock::now();
  for (auto _ : state) {
    Loader loader(runtime, pipeline, {.epoch_count = 1});
    while (const std::optional<Batch> batch = loader.next()) {
      sum += bench::checksum(*batch);
      images += batch->size();
    }
  }
  benchmark::DoNotOptimize(sum);
  const double cpu = bench::cpu_seconds() - before;
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  state.SetItemsProcessed(static_cast<std::int64_t>(images));
  state.counters["images/cpu_s"] = static_cast<double>(images) / cpu;
  state.counters["cores"] = cpu / wall;
  state.counters["most_resident_MB"] = most_resident_mb();
}

BENCHMARK(EvalChain)
    ->Name("EvalChain/warm/threads:2/batch:64")
    ->Iterations(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
