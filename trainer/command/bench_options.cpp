// The one list of options of `bench`.
#include <penstock/trainer/command/bench_options.h>

#include <array>
#include <utility>

#include <CLI/CLI.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/command/argument.h>
#include <penstock/trainer/command/bench_chain.h>

namespace penstock::trainer::command {
namespace {

const CLI::Validator kNotEmpty(
    [](const std::string& text) { return text.empty() ? "a value is expected, got ''" : ""; }, "");

/// `3.5ms`, `200us`, `1s`.
std::chrono::nanoseconds parse_duration(const std::string& option, const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  constexpr double kMostNs = 3600e9;
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string number = text.substr(0, text.size() - std::string(unit).size());
    if (number.empty() || (number.back() != '.' && (number.back() < '0' || number.back() > '9'))) continue;
    const double value = parse_rate(option, number) * ns;
    if (value > kMostNs) throw InvalidArgument(option + ": at most an hour is expected, got '" + text + "'");
    return std::chrono::nanoseconds(static_cast<std::int64_t>(value));
  }
  throw InvalidArgument(option + ": a time is expected, as in 3.5ms, 200us or 1s, got '" + text + "'");
}

RowPlace parse_place(const std::string& option, const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) {
    throw InvalidArgument(option + ": BATCH:ROW is expected, as in 3:17, got '" + text + "'");
  }
  return {parse_count(option, text.substr(0, colon), 0), parse_count(option, text.substr(colon + 1), 0)};
}

}  // namespace

void add_bench_options(CLI::App& command, BenchOptions& options) {
  command.add_option("SOURCE", options.source, "Data: idx:IMAGES,LABELS, folder:PATH, or the path of a folder")
      ->type_name("TEXT")
      ->required();
  CLI::Option* const chain =
      command.add_option("--chain", options.chain, "Maps: " + chain_help() + ". Not given: eval")->type_name("NAME");
  command.add_option("--map", options.maps, "A map of a chain of your own, in order, once for each: " + map_help())
      ->type_name("NAME[:ARGS]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->excludes(chain);
  command.add_option("--batch", options.batch, "Samples in a batch")->type_name("N")->capture_default_str();
  command.add_option("--epochs", options.epochs, "Epochs to run")->type_name("N")->capture_default_str();
  command.add_flag("--shuffle", options.shuffle, "In an order drawn by the seed, another one in each epoch");
  command.add_option("--cache", options.cache, "memory:SIZE keeps samples as they are before the first random map")
      ->type_name("CACHE");
  command.add_option("--prefetch", options.prefetch, "Batches kept ready ahead; not given: 1")->type_name("N");
  command.add_flag("--autotune", options.autotune, "Threads, block size, batches ahead and reads turn themselves");
  command
      .add_option("--consumer", options.consumer,
                  "An emulated step: the consumer sleeps this long for each batch; prints the accelerator's "
                  "utilisation, the first step left out. 3.5ms, 200us, 1s")
      ->type_name("TIME");
  command.add_option("--host-budget", options.host_budget, "Host memory of samples on their way; not caches")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--svg", options.svg, "Writes a picture of the stages' times and waits")->type_name("FILE");
  command.add_option("--trace", options.trace, "Writes what ran when, for ui.perfetto.dev")->type_name("FILE");
  command
      .add_option("--show", options.show,
                  "Runs nothing but one row of the first epoch: where it came from, what its random maps drew, its "
                  "fields")
      ->type_name("BATCH:ROW");
  command.add_option("--threads", options.common.threads_text, "Worker threads; 0: one a core. Changes speed only")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--seed", options.common.seed_text, "Of shuffle and random maps")
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--json", options.common.json, "Prints one JSON object on standard output");
  for (CLI::Option* const option : command.get_options()) {
    if (option->get_expected_max() > 0) option->check(kNotEmpty);
  }
}

CheckedBench check_bench(const BenchOptions& options) {
  CheckedBench checked;
  checked.threads = options.common.threads();
  checked.seed = options.common.seed();
  checked.batch = parse_count("--batch", options.batch, 1);
  checked.epochs = parse_count("--epochs", options.epochs, 1);
  if (!options.prefetch.empty()) {
    checked.prefetch = parse_count("--prefetch", options.prefetch, 1);
    if (checked.prefetch > 4096) {
      throw InvalidArgument("--prefetch: at most 4096 is expected, got '" + options.prefetch + "'");
    }
  }
  checked.host_budget_bytes = parse_bytes("--host-budget", options.host_budget);
  if (!options.cache.empty()) checked.cache_bytes = parse_cache("--cache", options.cache);
  if (!options.consumer.empty()) checked.consumer = parse_duration("--consumer", options.consumer);
  if (!options.show.empty()) checked.show = parse_place("--show", options.show);
  return checked;
}

}  // namespace penstock::trainer::command
