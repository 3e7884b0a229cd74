// What the verdict predicts for its next step beside what the step really brings, on the evaluation chain over photos
// (named by PENSTOCK_PHOTOS; make_photos.py makes them): a second thread, and a cache of decoded pictures in memory.
// Each iteration measures before and after, so what else the machine does meets both; `gain_error` is (1 + predicted
// gain) / (1 + measured gain) - 1, which should lie within 0.15 of 0.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <benchmark/benchmark.h>
#include <penstock/cache/memory_store.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/report/verdict.h>
#include <penstock/pipeline/source/image_folder.h>

#include "checksum.h"

namespace {

using namespace penstock;

constexpr std::uint64_t kPhotos = 512;  // decoded, about 300 MB

std::string photo_folder() {
  const char* folder = std::getenv("PENSTOCK_PHOTOS");
  return folder != nullptr ? folder : "";
}

Pipeline eval_chain(const std::shared_ptr<SampleStore>& store) {
  const Pipeline decoded = image_folder(photo_folder()).take(kPhotos).map(decode_image());
  return (store ? decoded.cache(store) : decoded)
      .map(resize_short_side(256))
      .map(center_crop(224))
      .map(normalise({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}, {.layout = Layout::kChw}))
      .batch(32)
      .prefetch(2);
}

/// The report of the last of `epochs` epochs alone.
struct Measured {
  LoaderReport before;
  LoaderReport report;
  double rate() const {
    return static_cast<double>(report.samples - before.samples) / (report.seconds - before.seconds);
  }
};

Measured run(const Pipeline& pipeline, std::size_t threads, std::uint64_t epochs) {
  const Runtime runtime({.threads = threads});
  Loader loader(runtime, pipeline, {.epoch_count = epochs});
  Measured measured;
  std::uint64_t sum = 0;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    if (epoch + 1 == epochs && epoch > 0) measured.before = loader.report();
    while (const std::optional<Batch> batch = loader.next()) sum += bench::checksum(*batch);
  }
  benchmark::DoNotOptimize(sum);
  measured.report = loader.report();
  return measured;
}

void predict(benchmark::State& state, VerdictStep::Kind kind, const std::string& stage,
             const std::function<double()>& after) {
  if (photo_folder().empty()) return state.SkipWithError("set PENSTOCK_PHOTOS");
  const Pipeline pipeline = eval_chain(nullptr);
  const MachineLimits limits = measure_limits(pipeline);
  VerdictOptions options = verdict_options(pipeline);
  options.source_samples = kPhotos;
  double predicted = 0;
  double measured = 0;
  for (auto _ : state) {
    const Measured now = run(pipeline, 1, 1);
    const Verdict judged = verdict(now.report, limits, options);
    const auto step = std::find_if(judged.steps.begin(), judged.steps.end(),
                                   [&](const VerdictStep& one) { return one.kind == kind && one.stage == stage; });
    if (step == judged.steps.end()) return state.SkipWithError("the verdict does not name the step");
    predicted += step->gain;
    measured += after() / now.rate() - 1;
    state.SetLabel(judged.text);
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["predicted_gain"] = predicted / runs;
  state.counters["measured_gain"] = measured / runs;
  state.counters["gain_error"] = (1 + predicted / runs) / (1 + measured / runs) - 1;
}

void SecondThread(benchmark::State& state) {
  predict(state, VerdictStep::Kind::kThread, "", [] { return run(eval_chain(nullptr), 2, 1).rate(); });
}

void CacheDecoded(benchmark::State& state) {
  predict(state, VerdictStep::Kind::kCache, "decode_image",
          [] { return run(eval_chain(cache::memory(std::uint64_t{2} << 30)), 1, 2).rate(); });
}

BENCHMARK(SecondThread)
    ->Name("Verdict/EvalChain/warm/second_thread")
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(CacheDecoded)
    ->Name("Verdict/EvalChain/warm/cache_decoded")
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
