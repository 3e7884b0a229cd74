// The one list of options of `train` and `plan`.
#include <penstock/trainer/command/job_options.h>

#include <CLI/CLI.hpp>

#include <penstock/gpu/memory_plan.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/trainer/command/argument.h>

namespace penstock::trainer::command {
namespace {

std::uint64_t cap_or_none(const std::string& option, const std::string& text) {
  return text.empty() ? gpu::kNoCap : parse_bytes(option, text);
}

/// A variable of a script that is not set must not pass for an option that is not given.
const CLI::Validator kNotEmpty(
    [](const std::string& text) { return text.empty() ? "a value is expected, got ''" : ""; }, "");

std::string recipe_list() {
  std::string list;
  for (const std::string& name : recipe_names()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

void add_job_options(CLI::App& command, JobOptions& options) {
  command
      .add_option("--train", options.train, "Training data: idx:IMAGES,LABELS, folder:PATH, or the path of a folder")
      ->type_name("SOURCE")
      ->required();
  command.add_option("--val", options.val, "Validation data, likewise; its classes are those of training")
      ->type_name("SOURCE")
      ->required();
  command.add_option("--batch", options.batch, "Training batch; changes results, so it must be given")
      ->type_name("N")
      ->required();
  command.add_option("--epochs", options.epochs, "Epochs; changes results, so it must be given")
      ->type_name("N")
      ->required();
  command
      .add_option("--val-batch", options.val_batch,
                  "Validation batch; not given: the largest up to the training batch that fits its cap")
      ->type_name("N");
  command.add_option("--model", options.model, "resnet9, mlp")->type_name("NAME")->capture_default_str();
  command
      .add_option("--width", options.width,
                  "Channels of resnet9's first layer (64), units of mlp's first hidden layer (256)")
      ->type_name("N");
  command.add_option("--recipe", options.recipe, "Transforms, mean and deviation, schedule: " + recipe_list())
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--lr", options.learning_rate, "Highest learning rate; not given: the recipe's")->type_name("X");
  command.add_option("--weight-decay", options.weight_decay, "Not given: the recipe's")->type_name("X");
  command
      .add_option("--train-cap", options.train_cap,
                  "Device memory that training may use: its ring of batches and its step. 64MiB, 1.5GB, 200000000")
      ->type_name("SIZE");
  command
      .add_option("--val-cap", options.val_cap,
                  "Device memory that validation may use: its ring of batches and its step")
      ->type_name("SIZE");
  command
      .add_option(
          "--device-cap", options.device_cap,
          "All device memory of the job: model, both rings, the step memory they share. Not given: what the device "
          "has left; a phase's cap not given: this one")
      ->type_name("SIZE");
  command.add_option("--depth", options.depth, "Batches that each pipeline keeps in device memory; changes no result")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--host-budget", options.host_budget,
                  "Host memory of samples on their way, both pipelines; not caches, not pinned buffers")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--cache", options.cache, "memory:SIZE keeps samples as they are before the first random map")
      ->type_name("CACHE");
  command.add_option("--out", options.out, "Run folder to make; not given: the resumed one, else runs/1, runs/2, ...")
      ->type_name("FOLDER");
  command.add_option("--resume", options.resume, "Goes on from a checkpoint: its file, or a run folder")
      ->type_name("PATH");
  add_common_options(command, options.common);
  for (CLI::Option* const option : command.get_options()) {
    if (option->get_expected_max() > 0) option->check(kNotEmpty);
  }
}

CheckedOptions check_options(const JobOptions& options) {
  CheckedOptions checked;
  TrainerOptions& trainer = checked.trainer;
  trainer.batch = parse_count("--batch", options.batch, 1);
  trainer.epochs = parse_count("--epochs", options.epochs, 1);
  if (!options.val_batch.empty()) trainer.val_batch = parse_count("--val-batch", options.val_batch, 1);
  trainer.model = options.model;
  if (!options.width.empty()) {
    trainer.width = static_cast<std::int64_t>(parse_count("--width", options.width, 1));
    if (trainer.width > 65536) throw InvalidArgument("--width: at most 65536 is expected, got '" + options.width + "'");
  }
  trainer.recipe = recipe_by_name(options.recipe);
  if (!options.learning_rate.empty()) trainer.learning_rate = parse_rate("--lr", options.learning_rate);
  if (!options.weight_decay.empty()) trainer.weight_decay = parse_rate("--weight-decay", options.weight_decay);
  trainer.train_cap_bytes = cap_or_none("--train-cap", options.train_cap);
  trainer.val_cap_bytes = cap_or_none("--val-cap", options.val_cap);
  trainer.device_cap_bytes = cap_or_none("--device-cap", options.device_cap);
  trainer.depth = parse_count("--depth", options.depth, 1);
  if (trainer.depth > 1024) throw InvalidArgument("--depth: at most 1024 is expected, got '" + options.depth + "'");
  trainer.seed = options.common.seed();
  trainer.resume = options.resume;
  checked.threads = options.common.threads();
  checked.host_budget_bytes = parse_bytes("--host-budget", options.host_budget);
  const std::uint64_t sample_bytes = LoaderOptions{}.max_sample_bytes;
  if (checked.host_budget_bytes < 2 * sample_bytes) {
    throw InvalidArgument("--host-budget: at least " + gpu::format_size(2 * sample_bytes) +
                          " is expected, for the largest sample of each pipeline, got '" + options.host_budget + "'");
  }
  if (!options.cache.empty()) checked.cache_bytes = parse_cache("--cache", options.cache);
  return checked;
}

}  // namespace penstock::trainer::command
