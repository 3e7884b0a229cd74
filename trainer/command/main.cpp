// The program `penstock`. Every failure is one line on standard error and an exit code (exit_code.h).
#include <iostream>

#include <CLI/CLI.hpp>

#include <penstock/trainer/command/bench_command.h>
#include <penstock/trainer/command/exit_code.h>
#include <penstock/trainer/command/plan_command.h>
#include <penstock/trainer/command/train_command.h>

namespace {

using namespace penstock::trainer::command;

int run(int argument_count, char** arguments, SignalStop& signals) {
  CLI::App app("Trains image classifiers inside planned memory.", "penstock");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.require_subcommand(0, 1);
  JobOptions train_options;
  JobOptions plan_options;
  CLI::App* train = app.add_subcommand("train", "Trains a model; prints the memory plan first, then a row an epoch");
  CLI::App* plan =
      app.add_subcommand("plan", "Prints the memory plan of `train` with the same options; trains nothing");
  add_job_options(*train, train_options);
  add_job_options(*plan, plan_options);
  BenchOptions bench_options;
  CLI::App* bench =
      app.add_subcommand("bench", "Measures an input pipeline: each stage, the whole, and what limits it");
  add_bench_options(*bench, bench_options);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "penstock: " << error.what() << " (penstock --help, penstock train --help)" << std::endl;
    return kUsage;
  }
  if (bench->parsed()) return run_bench(bench_options, signals);
  if (!train->parsed() && !plan->parsed()) {
    std::cerr << "penstock: a command is expected, train, plan or bench (penstock --help)" << std::endl;
    return kUsage;
  }
  return train->parsed() ? run_train(train_options, signals) : run_plan(plan_options);
}

}  // namespace

int main(int argument_count, char** arguments) {
  SignalStop signals;
  try {
    const int code = run(argument_count, arguments, signals);
    if (code != kDone || std::cout.flush()) return code;
    std::cerr << "penstock: cannot write to standard output" << std::endl;
    return kFailed;
  } catch (const std::exception& error) {
    std::cerr << "penstock: " << error.what() << std::endl;
    return kUsage;
  }
}
