// The arithmetic of the header, line by line. A bound that is not there is infinite inside and 0 outside.
#include <penstock/pipeline/report/verdict.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <penstock/pipeline/report/verdict_text.h>

namespace penstock {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
/// Steps that gain less are not worth a word.
constexpr double kLeastGain = 0.01;

/// The costs of a sample, and what they are paid with.
struct Costs {
  std::vector<double> stages;  // c[s]
  std::vector<double> bytes;   // b[s]
  double latency = 0;          // l
  double consumer = 0;         // k
  double work = 0;             // W
  double threads = 1;          // T
  double reads = kNone;        // R
};

double ratio(double amount, double cost) { return cost > 0 ? amount / cost : kNone; }
double threads_rate(const Costs& costs) { return ratio(costs.threads, costs.work); }
double reading_rate(const Costs& costs) { return ratio(costs.reads, costs.latency); }
double consumer_rate(const Costs& costs) { return ratio(1, costs.consumer); }
double least(const Costs& costs) { return std::min({threads_rate(costs), reading_rate(costs), consumer_rate(costs)}); }
double or_zero(double rate) { return std::isfinite(rate) ? rate : 0; }

double open_samples(const Knobs& knobs, const VerdictOptions& options) {
  return static_cast<double>(std::max<std::size_t>(1, knobs.batches_ahead)) *
         static_cast<double>(std::max<std::size_t>(1, options.batch_size));
}

LoaderReport since(LoaderReport report, const LoaderReport& before) {
  for (std::size_t i = 0; i < report.stages.size() && i < before.stages.size(); ++i) {
    report.stages[i].count -= before.stages[i].count;
    report.stages[i].seconds -= before.stages[i].seconds;
    report.stages[i].bytes -= before.stages[i].bytes;
    report.stages[i].wait_seconds -= before.stages[i].wait_seconds;
  }
  report.samples -= before.samples;
  report.batches -= before.batches;
  report.seconds -= before.seconds;
  report.wait_seconds -= before.wait_seconds;
  return report;
}

Costs costs_of(const LoaderReport& report, const VerdictOptions& options) {
  Costs costs;
  const auto samples = static_cast<double>(report.samples);
  for (const StageReport& stage : report.stages) {
    costs.stages.push_back(std::max(0.0, stage.seconds) / samples);
    costs.bytes.push_back(stage.count > 0 ? static_cast<double>(stage.bytes) / static_cast<double>(stage.count) : 0);
    costs.latency += std::max(0.0, stage.wait_seconds) / samples;
    costs.work += costs.stages.back();
  }
  costs.consumer = std::max(0.0, report.seconds - report.wait_seconds) / samples;
  costs.threads = static_cast<double>(std::max<std::size_t>(1, report.knobs.threads));
  costs.reads = open_samples(report.knobs, options);
  if (report.knobs.reads_in_flight != 0) {
    costs.reads = std::min(costs.reads, static_cast<double>(report.knobs.reads_in_flight));
  }
  return costs;
}

Costs with_cache(const Costs& costs, std::size_t after, double copy_bytes_per_s) {
  Costs cached = costs;
  for (std::size_t i = 0; i <= after; ++i) cached.work -= costs.stages[i];
  cached.work = std::max(0.0, cached.work) + ratio(costs.bytes[after], copy_bytes_per_s);
  cached.latency = 0;
  return cached;
}

/// Every change that the model knows.
class Steps {
 public:
  Steps(const Costs& costs, double reached) : costs_(costs), reached_(reached) {}

  void add(VerdictStep step, const Costs& changed) {
    const double now = least(costs_);
    const double then = least(changed);
    // Without any bound left the model says nothing about how much more.
    if (!std::isfinite(now) || !std::isfinite(then)) return;
    step.gain = then / now - 1;
    if (step.gain < kLeastGain) return;
    step.samples_per_s = reached_ * (then / now);
    step.text = report::step_text(step);
    steps_.push_back(std::move(step));
  }
  std::vector<VerdictStep> take(std::uint64_t memory_bytes) {
    const auto fits = [&](const VerdictStep& step) { return memory_bytes == 0 || step.bytes <= memory_bytes; };
    std::stable_sort(steps_.begin(), steps_.end(), [&](const VerdictStep& a, const VerdictStep& b) {
      return fits(a) != fits(b) ? fits(a) : a.gain > b.gain;
    });
    return std::move(steps_);
  }

 private:
  const Costs& costs_;
  double reached_;
  std::vector<VerdictStep> steps_;
};

using Kind = VerdictStep::Kind;

std::vector<VerdictStep> steps_of(const LoaderReport& report, const MachineLimits& limits,
                                  const VerdictOptions& options, const Costs& costs, double reached) {
  Steps steps(costs, reached);
  const Knobs& knobs = report.knobs;
  const std::size_t threads = std::max<std::size_t>(1, knobs.threads);
  {
    Costs changed = costs;
    changed.threads += 1;
    steps.add(
        {.kind = threads < limits.cores ? Kind::kThread : Kind::kCore, .stage = {}, .to = threads + 1, .text = {}},
        changed);
  }
  const double open = open_samples(knobs, options);
  Costs doubled = costs;
  if (costs.reads < open) {
    doubled.reads = std::min(open, 2 * costs.reads);
    steps.add({.kind = Kind::kReads, .stage = {}, .to = static_cast<std::size_t>(doubled.reads), .text = {}}, doubled);
  } else {
    doubled.reads = 2 * costs.reads;
    steps.add(
        {.kind = Kind::kPrefetch, .stage = {}, .to = 2 * std::max<std::size_t>(1, knobs.batches_ahead), .text = {}},
        doubled);
  }
  for (std::size_t i = 0; i < std::min(options.cacheable_stages, costs.stages.size()); ++i) {
    if (options.source_samples == 0 || limits.copy_bytes_per_s <= 0 || costs.bytes[i] <= 0) continue;
    const double bytes = std::ceil(costs.bytes[i] * static_cast<double>(options.source_samples));
    steps.add(
        {.kind = Kind::kCache, .stage = report.stages[i].name, .bytes = static_cast<std::uint64_t>(bytes), .text = {}},
        with_cache(costs, i, limits.copy_bytes_per_s));
  }
  Costs free_consumer = costs;
  free_consumer.consumer = 0;
  steps.add({.kind = Kind::kConsumer, .stage = {}, .text = {}}, free_consumer);
  return steps.take(limits.memory_bytes);
}

}  // namespace

VerdictOptions verdict_options(const Pipeline& pipeline) {
  const Plan& plan = pipeline.plan();
  VerdictOptions options;
  if (const auto* const batch = find_stage<BatchStage>(plan)) options.batch_size = batch->size;
  if (!is_flat(plan) || find_stage<CacheStage>(plan) != nullptr) return options;
  options.source_samples = plan.source->size().value_or(0);
  options.cacheable_stages = 1;
  for (const Stage& stage : plan.stages) {
    const auto* const map = std::get_if<MapStage>(&stage);
    if (map == nullptr) continue;
    if (map->draws) break;
    ++options.cacheable_stages;
  }
  return options;
}

Verdict verdict(const LoaderReport& report, const MachineLimits& limits, const VerdictOptions& options) {
  const LoaderReport judged = options.since ? since(report, *options.since) : report;
  Verdict verdict;
  const std::size_t threads = std::max<std::size_t>(1, judged.knobs.threads);
  if (judged.samples == 0 || judged.seconds <= 0) {
    verdict.text = report::verdict_text(verdict, limits, threads);
    return verdict;
  }
  const Costs costs = costs_of(judged, options);
  verdict.samples_per_s = static_cast<double>(judged.samples) / judged.seconds;
  verdict.threads_samples_per_s = or_zero(threads_rate(costs));
  verdict.reading_samples_per_s = or_zero(reading_rate(costs));
  verdict.consumer_samples_per_s = or_zero(consumer_rate(costs));
  if (consumer_rate(costs) <= least(costs)) {
    verdict.bound = Bound::kConsumer;
  } else if (reading_rate(costs) <= least(costs)) {
    verdict.bound = Bound::kReading;
  } else {
    verdict.bound = Bound::kThreads;
  }
  double most = -1;
  for (std::size_t i = 0; i < judged.stages.size(); ++i) {
    const double cost = costs.stages[i];
    verdict.stages.push_back({judged.stages[i].name, costs.work > 0 ? cost / costs.work : 0, or_zero(ratio(1, cost))});
    if (cost > most) {
      most = cost;
      verdict.stage = judged.stages[i].name;
    }
  }
  if (limits.samples_per_s > 0) {
    const auto used = static_cast<double>(std::min(threads, std::max<std::size_t>(1, limits.cores)));
    verdict.share_of_limit = verdict.samples_per_s / (limits.samples_per_s * used);
  }
  verdict.steps = steps_of(judged, limits, options, costs, verdict.samples_per_s);
  verdict.text = report::verdict_text(verdict, limits, threads);
  return verdict;
}

}  // namespace penstock
