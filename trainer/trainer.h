// Trains an image classifier with two pipelines, training and validation, each with its own batch size and its own
// device-memory cap. All memory is planned and taken before the first step.
//
//   const Recipe recipe = recipe_by_name("fashion");
//   TrainerData data{apply_recipe(recipe, train, Phase::kTrain), apply_recipe(recipe, val, Phase::kVal), classes};
//   Trainer trainer(device, runtime, data, {.model = "resnet9", .epochs = 3, .batch = 128, .recipe = recipe});
//   std::cout << trainer.plan().table();
//   TrainResult result = trainer.run(observer);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <penstock/gpu/device.h>
#include <penstock/gpu/memory_accounts.h>
#include <penstock/gpu/memory_plan.h>
#include <penstock/gpu/preflight.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/trainer/recipe.h>

namespace penstock::trainer {

/// Pipelines of samples, not batched (the trainer batches them): fields `image` u8 [height, width, channels] of one
/// known shape and `label` i64 []; what `apply_recipe` returns. Both of known size.
struct TrainerData {
  Pipeline train;
  Pipeline val;
  std::vector<std::string> classes;  ///< names by label; of the training set, and given to validation
  std::string train_source = {};     ///< where the samples come from, for config.json
  std::string val_source = {};
};

/// What is trained and how; all that changes results, and the limits.
struct TrainerOptions {
  std::string model = "resnet9";  ///< `resnet9` or `mlp`
  std::int64_t width = 0;  ///< channels of the first layer (resnet9), units of the first hidden layer (mlp); 0: 64, 256
  std::uint64_t epochs = 0;   ///< at least 1
  std::size_t batch = 0;      ///< training batch, at least 1
  std::size_t val_batch = 0;  ///< 0: the largest up to the training batch that fits the validation cap
  std::uint64_t train_cap_bytes = gpu::kNoCap;   ///< device bytes that training may use: its ring and its step
  std::uint64_t val_cap_bytes = gpu::kNoCap;     ///< the same for validation
  std::uint64_t device_cap_bytes = gpu::kNoCap;  ///< all device memory of the job
  Recipe recipe = {};                        ///< the optimisation; the data have its maps already, by `apply_recipe`
  std::optional<double> learning_rate = {};  ///< instead of the recipe's peak
  std::optional<double> weight_decay = {};   ///< instead of the recipe's
  std::uint64_t seed = 0;                    ///< of weights, shuffles and random maps
  std::size_t depth = 2;                     ///< device slots of each feed
  std::size_t pinned_depth = 3;              ///< pinned buffers of each feed
  std::filesystem::path out = {};            ///< run folder; empty: nothing is written
  std::filesystem::path resume = {};         ///< a checkpoint file or a run folder with checkpoints; empty: a new run
  /// Steps of an epoch after which there is a checkpoint too; 0: at epochs' ends only.
  std::uint64_t checkpoint_steps = 0;
};

/// How far a phase is.
struct StepProgress {
  Phase phase = Phase::kTrain;
  std::uint64_t epoch = 0;  ///< counted from 1
  std::uint64_t epochs = 0;
  std::uint64_t step = 0;  ///< steps enqueued in this phase, counted from 1
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;    ///< of the steps so far in this run
  double images_per_s = 0;      ///< of this phase's steps that are done; 0: none is known to be
  double data_wait_share = 0;   ///< share of the phase's time that it waited for the loader
  double run_seconds_left = 0;  ///< estimate for the whole run from training steps so far; 0: not known yet
};

/// A row of metrics.jsonl: one epoch. Shares and accuracies are fractions.
struct EpochRow {
  std::uint64_t epoch = 0;  ///< counted from 1
  double train_loss = 0;
  double train_top1 = 0;
  double val_loss = 0;
  double val_top1 = 0;
  double val_top5 = 0;
  double images_per_s = 0;  ///< training
  double data_wait_share = 0;
  std::vector<gpu::AccountFigures> accounts;  ///< phases first, then accounts: peak and cap
};

/// What a run reports while it runs; calls come from the thread that called `run`, and must be quick. All may be left
/// out.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// The plan, which fits; its memory has been taken, and no step has run.
  virtual void on_plan(const gpu::MemoryPlan& /*plan*/) {}
  virtual void on_step(const StepProgress& /*progress*/) {}
  virtual void on_epoch(const EpochRow& /*row*/) {}
  /// A checkpoint is complete on disk.
  virtual void on_checkpoint(const std::filesystem::path& /*file*/) {}
  /// One line for people: dropped samples, a class without samples, where a run was resumed.
  virtual void on_notice(const std::string& /*text*/) {}
};

/// What a run came to.
struct TrainResult {
  std::vector<EpochRow> rows;             ///< of the whole training, earlier runs included
  bool stopped = false;                   ///< ended by a stop request, between steps
  std::uint64_t steps = 0;                ///< training steps in this run
  std::uint64_t weights_hash = 0;         ///< XXH3 of weights, momentum and batch-norm statistics at the end
  double train_seconds = 0;               ///< in training steps, in this run
  std::filesystem::path last_checkpoint;  ///< empty when none was written
};

/// Numbers of a model and a job that never change in a run.
struct TrainerSummary {
  std::string model;
  std::int64_t width = 0;
  std::uint64_t parameter_count = 0;
  std::size_t batch = 0;
  std::size_t val_batch = 0;  ///< as given or chosen
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t dropped_per_epoch = 0;  ///< training samples of each epoch that fill no batch
  std::uint64_t train_samples = 0;
  std::uint64_t val_samples = 0;
  double peak_learning_rate = 0;
  double weight_decay = 0;
};

/// One training job. Not safe for concurrent use; `run` once.
class Trainer {
 public:
  /// Checks all options and the resumed checkpoint, works out the plan; allocates no device memory, starts no thread,
  /// writes nothing. Throws InvalidArgument: an unknown model, a batch or epoch count of 0, a training set smaller than
  /// a batch (with the arithmetic), a field of another type, batch norm over a single value, a checkpoint of another
  /// job (with each difference); CheckpointCorrupt for a damaged one. A plan that does not fit is not an error here:
  /// see `plan()`.
  Trainer(std::shared_ptr<gpu::Device> device, const Runtime& runtime, TrainerData data, TrainerOptions options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  const TrainerSummary& summary() const;
  const gpu::MemoryPlan& plan() const;
  /// Trains to the end, or until `stop` is requested. Throws gpu::PlanRefused before anything is allocated or written;
  /// InvalidArgument before anything is written when the runtime's budget cannot hold both loaders; SampleError for a
  /// bad sample, Error for a loss that is not finite: checkpoints written before stay intact.
  TrainResult run(TrainObserver& observer, std::stop_token stop = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The plan as JSON text: `accounts` (path, planned_peak_bytes, cap_bytes or null), `states`, `fits`, `refusal` and
/// `suggestions`.
std::string plan_to_json(const gpu::MemoryPlan& plan);
/// A row as one line of JSON, as metrics.jsonl has it.
std::string row_to_json(const EpochRow& row);

}  // namespace penstock::trainer
