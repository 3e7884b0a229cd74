// Everything that can be refused is refused here, in the order in which it gets dearer: options, data, device, plan.
#include <penstock/trainer/command/job.h>

#include <sstream>

#include <penstock/cache/memory_store.h>
#include <penstock/pipeline/loader.h>
#include <penstock/trainer/command/run_folder.h>
#include <penstock/trainer/command/source_argument.h>

namespace penstock::trainer::command {
namespace {

/// `name   text`, one setting a line.
void line(std::ostream& to, const std::string& name, const std::string& text) {
  to << "  " << name << std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') << text << "\n";
}

/// Reads and prepares the first picture, so that a data set of which nothing can be read is bad input, not a failed
/// run.
void require_first_sample(const Runtime& runtime, const Recipe& recipe, const Pipeline& samples) {
  Loader loader(runtime, apply_recipe(recipe, samples.take(1), Phase::kVal).batch(1), {.epoch_count = 1});
  loader.next();
}

std::string given_or(const std::string& text, const std::string& otherwise) { return text.empty() ? otherwise : text; }

std::string describe_settings(const JobOptions& options, const CheckedOptions& checked, const Runtime& runtime,
                              const gpu::Device& device, const TrainerSummary& summary,
                              const std::filesystem::path& out) {
  const TrainerOptions& trainer = checked.trainer;
  const std::string no_cap = "not given: the device cap";
  const bool is_host = device.kind() == gpu::DeviceKind::kHost;
  const std::string device_cap = is_host ? "not given: what the host device has left, of half this machine's memory"
                                         : "not given: what the device has left";
  std::ostringstream text;
  std::ostringstream rates;
  rates << "peak learning rate " << summary.peak_learning_rate << ", weight decay " << summary.weight_decay;
  line(text, "device", device.name() + ", " + std::to_string(runtime.threads()) + " threads");
  line(text, "train", options.train + ", " + std::to_string(summary.train_samples) + " samples");
  line(text, "val", options.val + ", " + std::to_string(summary.val_samples) + " samples");
  line(text, "model",
       summary.model + ", width " + std::to_string(summary.width) + ", " + std::to_string(summary.parameter_count) +
           " parameters");
  line(text, "recipe", trainer.recipe.name + ", " + rates.str());
  line(text, "seed", std::to_string(trainer.seed));
  line(text, "epochs", std::to_string(trainer.epochs) + " of " + std::to_string(summary.steps_per_epoch) + " steps");
  line(text, "batch",
       std::to_string(summary.batch) + "; of each epoch " + std::to_string(summary.dropped_per_epoch) +
           " samples fill no batch and are left out");
  line(text, "val batch",
       std::to_string(summary.val_batch) +
           (options.val_batch.empty() ? " (not given: the largest up to the training batch that fits its cap)" : ""));
  line(text, "depth", std::to_string(trainer.depth) + " batches of each pipeline in device memory");
  line(text, "train cap",
       gpu::format_size(trainer.train_cap_bytes) + " for its ring and its step" +
           (options.train_cap.empty() ? " (" + no_cap + ")" : ""));
  line(text, "val cap",
       gpu::format_size(trainer.val_cap_bytes) + " for its ring and its step" +
           (options.val_cap.empty() ? " (" + no_cap + ")" : ""));
  line(text, "device cap",
       gpu::format_size(trainer.device_cap_bytes) + " for all of the job" +
           (options.device_cap.empty() ? " (" + device_cap + ")" : ""));
  line(text, "host budget", gpu::format_size(checked.host_budget_bytes) + " for samples on their way");
  line(text, "cache", given_or(options.cache, "none"));
  if (!out.empty()) line(text, "out", out.string());
  if (!options.resume.empty()) line(text, "resume", options.resume);
  return text.str();
}

}  // namespace

Job open_job(const JobOptions& options, Purpose purpose) {
  CheckedOptions checked = check_options(options);
  TrainerOptions& trainer_options = checked.trainer;
  if (purpose == Purpose::kTrain) trainer_options.out = choose_run_folder(options.out, options.resume);

  OpenedSource train = open_source("--train", options.train);
  OpenedSource val = open_source("--val", options.val, train.classes);
  std::vector<std::string> notices = std::move(train.notices);
  notices.insert(notices.end(), val.notices.begin(), val.notices.end());

  std::shared_ptr<SampleStore> store;
  if (checked.cache_bytes) store = cache::memory(*checked.cache_bytes);
  TrainerData data{apply_recipe(trainer_options.recipe, train.samples, Phase::kTrain, store),
                   apply_recipe(trainer_options.recipe, val.samples, Phase::kVal, store), train.classes, options.train,
                   options.val};

  Runtime runtime({.threads = checked.threads, .budget_bytes = checked.host_budget_bytes});
  require_first_sample(runtime, trainer_options.recipe, train.samples);
  require_first_sample(runtime, trainer_options.recipe, val.samples);
  std::shared_ptr<gpu::Device> device = gpu::open_device(options.common.device, runtime);
  // The thread that launches kernels loses more by waiting for a core than the loaders gain by having it.
  const bool core_to_spare = runtime.threads() >= 3 && checked.threads == 0;
  if (device->kind() == gpu::DeviceKind::kCuda && core_to_spare) runtime.set_active_threads(runtime.threads() - 1);
  if (options.device_cap.empty()) trainer_options.device_cap_bytes = device->memory_info().free_bytes;
  if (options.train_cap.empty()) trainer_options.train_cap_bytes = trainer_options.device_cap_bytes;
  if (options.val_cap.empty()) trainer_options.val_cap_bytes = trainer_options.device_cap_bytes;

  Trainer trainer(device, runtime, std::move(data), trainer_options);
  std::string settings = describe_settings(options, checked, runtime, *device, trainer.summary(), trainer_options.out);
  return Job{runtime,           std::move(device), std::move(trainer), trainer_options.out, std::move(settings),
             std::move(notices)};
}

}  // namespace penstock::trainer::command
