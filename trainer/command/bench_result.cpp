// Seconds stay seconds in JSON; people get microseconds a sample, which can be compared.
#include <penstock/trainer/command/bench_result.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/report/batch_hash.h>
#include <penstock/trainer/command/printed.h>

namespace penstock::trainer::command {
namespace {

const char* name_of(Bound bound) {
  switch (bound) {
    case Bound::kThreads:
      return "threads";
    case Bound::kReading:
      return "reading";
    case Bound::kConsumer:
      return "consumer";
    case Bound::kNothing:
      break;
  }
  return "nothing";
}

double alone(const StageReport& stage) {
  return stage.seconds > 0 ? static_cast<double>(stage.count) / stage.seconds : 0;
}

double microseconds(double seconds, std::uint64_t count) {
  return count > 0 ? 1e6 * seconds / static_cast<double>(count) : 0;
}

}  // namespace

std::string bench_json(const BenchResult& result) {
  using nlohmann::ordered_json;
  const LoaderReport& report = result.report;
  ordered_json json;
  json["source"] = result.source;
  json["maps"] = result.maps;
  json["batch"] = result.batch;
  json["epochs"] = result.epochs;
  json["threads"] = result.threads;
  json["seed"] = result.seed;
  json["samples"] = report.samples;
  json["batches"] = report.batches;
  json["seconds"] = result.seconds;
  json["cpu_seconds"] = result.cpu_seconds;
  json["samples_per_s"] = result.samples_per_s();
  json["samples_per_cpu_s"] = result.samples_per_cpu_s();
  json["limit"] = {{"name", result.limits.limit}, {"samples_per_s", result.limits.samples_per_s}};
  json["share_of_limit"] = result.verdict.share_of_limit;
  json["batch_hash"] = hash_text(result.batch_hash);
  json["peak_in_flight_bytes"] = result.peak_in_flight_bytes;
  json["stages"] = ordered_json::array();
  for (const StageReport& stage : report.stages) {
    json["stages"].push_back({{"name", stage.name},
                              {"seconds", stage.seconds},
                              {"wait", stage.wait_seconds},
                              {"count", stage.count},
                              {"bytes", stage.bytes},
                              {"samples_per_s", alone(stage)}});
  }
  json["consumer"] = {{"wait", report.wait_seconds}};
  if (result.consumer) {
    json["consumer"]["step"] = result.consumer->step_seconds;
    json["consumer"]["utilisation"] = result.consumer->utilisation;
  }
  json["bound"] = name_of(result.verdict.bound);
  json["verdict"] = result.verdict.text;
  json["steps"] = ordered_json::array();
  for (const VerdictStep& step : result.verdict.steps) {
    ordered_json one{{"text", step.text}, {"samples_per_s", step.samples_per_s}, {"gain", step.gain}};
    if (step.bytes > 0) one["bytes"] = step.bytes;
    json["steps"].push_back(std::move(one));
  }
  json["decisions"] = ordered_json::array();
  for (const TuningDecision& decision : report.decisions) {
    json["decisions"].push_back({{"batch", decision.batch},
                                 {"seconds", decision.seconds},
                                 {"knob", decision.knob},
                                 {"from", decision.from},
                                 {"to", decision.to},
                                 {"rate", decision.rate},
                                 {"reason", decision.reason}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string bench_text(const BenchResult& result) {
  const LoaderReport& report = result.report;
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  const auto counted = [&](std::uint64_t count, const char* one) {
    return number(count) + " " + one + (count == 1 ? "" : "s");
  };
  std::string text = number(report.samples) + " samples in " + number(report.batches) + " batches of " +
                     number(result.batch) + ", " + counted(result.epochs, "epoch") + ", " +
                     counted(result.threads, "thread") + "\n\n";
  std::size_t longest = 5;
  for (const StageReport& stage : report.stages) longest = std::max(longest, stage.name.size());
  const int width = static_cast<int>(longest);
  text += printed("%-*s  %9s  %11s  %11s  %16s  %8s\n", width, "stage", "samples", "us a sample", "us of waits",
                  "alone, samples/s", "bytes");
  for (const StageReport& stage : report.stages) {
    text += printed("%-*s  %9s  %11.2f  %11.2f  %16.0f  %8s\n", width, stage.name.c_str(), number(stage.count).c_str(),
                    microseconds(stage.seconds, stage.count), microseconds(stage.wait_seconds, stage.count),
                    alone(stage), bytes_text(static_cast<double>(stage.bytes)).c_str());
  }
  text += printed("\n%.0f samples/s, %.0f per CPU second; the consumer waited %.0f %% of %.2f s\n",
                  result.samples_per_s(), result.samples_per_cpu_s(),
                  result.seconds > 0 ? 100 * report.wait_seconds / result.seconds : 0, result.seconds);
  if (result.limits.samples_per_s > 0) {
    text +=
        printed("limit: %s, %.0f samples/s by one thread\n", result.limits.limit.c_str(), result.limits.samples_per_s);
  }
  if (result.consumer) {
    text += printed("accelerator: steps of %g ms, utilisation %.1f %%, the first step left out\n",
                    1e3 * result.consumer->step_seconds, 100 * result.consumer->utilisation);
  }
  text += "most in flight: " + bytes_text(static_cast<double>(result.peak_in_flight_bytes)) + "; batch hash " +
          hash_text(result.batch_hash) + "\n";
  for (const TuningDecision& decision : report.decisions) {
    text += "autotune: after batch " + number(decision.batch) + ", " + decision.knob + " " + number(decision.from) +
            " -> " + number(decision.to) + ": " + decision.reason + "\n";
  }
  return text + "verdict: " + result.verdict.text + "\n";
}

}  // namespace penstock::trainer::command
