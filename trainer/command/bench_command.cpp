// The consumer hashes every batch, so that nothing lazy can win; the processor time of that is taken out of the
// figures.
#include <penstock/trainer/command/bench_command.h>

#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include <penstock/cache/memory_store.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/provenance.h>
#include <penstock/pipeline/report/batch_hash.h>
#include <penstock/pipeline/report/trace.h>
#include <penstock/trainer/command/bench_chain.h>
#include <penstock/trainer/command/bench_result.h>
#include <penstock/trainer/command/exit_code.h>
#include <penstock/trainer/command/source_argument.h>
#include <penstock/trainer/command/svg.h>

namespace penstock::trainer::command {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double process_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A file that is asked for is opened before anything runs.
std::optional<std::ofstream> open_output(const std::string& option, const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::ofstream file(path, std::ios::binary);
  if (!file) throw InvalidArgument(option + ": '" + path + "' cannot be written");
  return file;
}

void close_output(const std::string& path, std::optional<std::ofstream>& file) {
  if (!file) return;
  file->close();
  if (!*file) throw Error(path + ": cannot be written");
}

struct Bench {
  Pipeline pipeline;
  std::vector<std::string> maps;
  std::vector<std::string> notices;
};

Bench open_bench(const BenchOptions& options, const CheckedBench& checked) {
  OpenedSource source = open_source("SOURCE", options.source);
  const Schema& samples = source.samples.schema();
  const std::vector<MapStage> maps = options.maps.empty()
                                         ? chain_maps(options.chain.empty() ? "eval" : options.chain, samples)
                                         : parse_maps(options.maps, samples);
  std::shared_ptr<SampleStore> store;
  if (checked.cache_bytes) store = cache::memory(*checked.cache_bytes);
  Pipeline ordered = options.shuffle ? source.samples.shuffle() : source.samples;
  Pipeline pipeline = with_maps(std::move(ordered), maps, store).batch(checked.batch).prefetch(checked.prefetch);
  std::vector<std::string> names;
  for (const Stage& stage : pipeline.plan().stages) {
    if (std::holds_alternative<MapStage>(stage) || std::holds_alternative<CacheStage>(stage)) {
      names.push_back(stage_name(stage));
    }
  }
  return {std::move(pipeline), std::move(names), std::move(source.notices)};
}

int show(const Runtime& runtime, const Pipeline& pipeline, const CheckedBench& checked, bool json) {
  const RebuiltRow row = rebuild(runtime, pipeline, checked.seed, 0, checked.show->batch, checked.show->row);
  if (!json) {
    std::cout << row.text << std::flush;
    return kDone;
  }
  nlohmann::ordered_json object;
  object["batch"] = row.provenance.batch;
  object["row"] = row.provenance.row;
  object["slot"] = row.provenance.slot;
  if (!row.provenance.origins.empty()) object["index"] = row.provenance.origins.front().index;
  if (!row.provenance.sources.empty()) object["source"] = row.provenance.sources.front();
  object["draws"] = nlohmann::ordered_json::array();
  for (const StageDraws& draws : row.draws) {
    object["draws"].push_back({{"stage", draws.stage}, {"words", draws.words}});
  }
  object["error"] = nullptr;
  if (row.error) {
    try {
      std::rethrow_exception(row.error);
    } catch (const std::exception& error) {
      object["error"] = error.what();
    }
  }
  object["fields"] = nlohmann::ordered_json::array();
  for (std::size_t f = 0; row.sample && f < row.sample->tensors().size(); ++f) {
    const Tensor& tensor = row.sample->tensors()[f];
    object["fields"].push_back({{"name", row.sample->names()[f]},
                                {"type", to_string(tensor.type())},
                                {"shape", tensor.shape().to_string()},
                                {"hash", hash_text(hash_bytes(tensor.data(), tensor.size_bytes()))}});
  }
  std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  return kDone;
}

/// The emulated accelerator: sleeps, and knows how much of its time it had work.
class Accelerator {
 public:
  explicit Accelerator(std::chrono::nanoseconds step) : step_(step) {}
  void run_step() {
    std::this_thread::sleep_for(step_);
    last_ = Clock::now();
    if (steps_++ == 0) first_ = last_;
  }
  ConsumerResult result() const {
    const double step = std::chrono::duration<double>(step_).count();
    const double after_first = seconds_between(first_, last_);
    const double busy = steps_ > 1 ? static_cast<double>(steps_ - 1) * step : 0;
    return {step, after_first > 0 ? std::min(1.0, busy / after_first) : 1};
  }

 private:
  std::chrono::nanoseconds step_;
  std::uint64_t steps_ = 0;
  Clock::time_point first_;
  Clock::time_point last_;
};

/// Runs all epochs. Throws what next() throws.
BenchResult measure(const Runtime& runtime, const Bench& bench, const BenchOptions& options,
                    const CheckedBench& checked, Loader& loader, const std::stop_token& stop) {
  BenchResult result{.source = options.source,
                     .maps = bench.maps,
                     .batch = checked.batch,
                     .epochs = checked.epochs,
                     .threads = runtime.threads(),
                     .seed = checked.seed,
                     .consumer = {},
                     .report = {},
                     .limits = {},
                     .verdict = {}};
  result.limits = measure_limits(bench.pipeline);
  BatchHash hash;
  double hash_seconds = 0;
  std::optional<Accelerator> accelerator;
  if (checked.consumer) accelerator.emplace(*checked.consumer);
  VerdictOptions judging = verdict_options(bench.pipeline);
  const double cpu_begin = process_seconds();
  const Clock::time_point begin = Clock::now();
  for (std::uint64_t epoch = 0; epoch < checked.epochs; ++epoch) {
    while (const std::optional<Batch> batch = loader.next(stop)) {
      const double hash_begin = thread_seconds();
      hash.add(*batch);
      hash_seconds += thread_seconds() - hash_begin;
      if (accelerator) accelerator->run_step();
    }
    // A first epoch fills caches and finds its knobs: where there are more, those are judged.
    if (epoch == 0 && checked.epochs > 1) judging.since = loader.report();
  }
  result.seconds = seconds_between(begin, Clock::now());
  result.cpu_seconds = process_seconds() - cpu_begin - hash_seconds;
  result.batch_hash = hash.value();
  result.peak_in_flight_bytes = runtime.peak_in_flight_bytes();
  if (accelerator) result.consumer = accelerator->result();
  result.report = loader.report();
  result.verdict = verdict(result.report, result.limits, judging);
  return result;
}

}  // namespace

int run_bench(const BenchOptions& options, SignalStop& signals) {
  const CheckedBench checked = check_bench(options);
  const Bench bench = open_bench(options, checked);
  const Runtime runtime({.threads = checked.threads, .budget_bytes = checked.host_budget_bytes});
  for (const std::string& notice : bench.notices) std::cerr << notice << std::endl;
  if (checked.show) return show(runtime, bench.pipeline, checked, options.common.json);

  std::shared_ptr<Trace> trace;
  if (!options.trace.empty()) trace = std::make_shared<Trace>();
  Loader loader(
      runtime, bench.pipeline,
      {.epoch_count = checked.epochs, .seed = checked.seed, .autotune = {.enabled = options.autotune}, .trace = trace});
  std::optional<std::ofstream> svg_file = open_output("--svg", options.svg);
  std::optional<std::ofstream> trace_file = open_output("--trace", options.trace);
  try {
    signals.begin();
    const BenchResult result = measure(runtime, bench, options, checked, loader, signals.token());
    if (svg_file) *svg_file << bench_svg(result);
    if (trace_file) trace->write_json(*trace_file);
    close_output(options.svg, svg_file);
    close_output(options.trace, trace_file);
    if (trace && trace->dropped() > 0) {
      std::cerr << options.trace << ": the oldest " << trace->dropped() << " events did not fit and are left out"
                << std::endl;
    }
    std::cout << (options.common.json ? bench_json(result) : bench_text(result)) << std::flush;
    return kDone;
  } catch (const Stopped&) {
    if (signals.signal() == 0) throw;
    std::cerr << "penstock: stopped by signal " << signals.signal() << std::endl;
    return kSignalled + signals.signal();
  } catch (const std::exception& error) {
    std::cerr << "penstock: " << error.what() << std::endl;
    return kFailed;
  }
}

}  // namespace penstock::trainer::command
