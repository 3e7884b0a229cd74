// Numbers stay text until they are asked for, so that a wrong one is told in our words.
#include <penstock/trainer/command/common_options.h>

#include <CLI/CLI.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/command/argument.h>

namespace penstock::trainer::command {

std::size_t CommonOptions::threads() const { return parse_count("--threads", threads_text, 0); }

std::uint64_t CommonOptions::seed() const { return parse_count("--seed", seed_text, 0); }

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--device", options.device, "auto (a GPU if one answers, else the host), host, cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--threads", options.threads_text, "Worker threads; 0: one a core. Changes speed, never results")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--seed", options.seed_text, "Of weights, shuffles and random maps")
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--json", options.json, "Prints JSON for scripts on standard output, text on standard error");
}

}  // namespace penstock::trainer::command
