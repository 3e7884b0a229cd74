// A training job as it is known before anything runs: checked options, model, pipelines in batches, memory needs and
// plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <penstock/gpu/device.h>
#include <penstock/gpu/memory_plan.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/trainer/backend.h>
#include <penstock/trainer/checkpoint.h>
#include <penstock/trainer/learning_rate.h>
#include <penstock/trainer/model_graph.h>
#include <penstock/trainer/model_layout.h>
#include <penstock/trainer/run_folder.h>
#include <penstock/trainer/step_program.h>
#include <penstock/trainer/trainer.h>

namespace penstock::trainer {

/// The program, the batches and the cap of one phase.
struct PhaseJob {
  Phase phase = Phase::kTrain;
  std::string name;  ///< `train`, `val`
  Pipeline batches;  ///< of `batch` rows
  std::size_t batch = 0;
  std::uint64_t samples = 0;
  std::uint64_t steps = 0;  ///< an epoch
};

/// Immutable but for remembered arithmetic. Not safe for concurrent use.
class TrainJob {
 public:
  /// Throws as Trainer's constructor says.
  TrainJob(std::shared_ptr<gpu::Device> device, const Runtime& runtime, TrainerData data, TrainerOptions options);

  const TrainerOptions& options() const noexcept { return options_; }
  const std::vector<std::string>& classes() const noexcept { return classes_; }
  const std::shared_ptr<gpu::Device>& device() const noexcept { return device_; }
  const Runtime& runtime() const noexcept { return runtime_; }
  Backend& backend() const noexcept { return *backend_; }
  const ModelGraph& graph() const noexcept { return graph_; }
  const ModelLayout& layout() const noexcept { return layout_; }
  const TriangleSchedule& schedule() const noexcept { return schedule_; }
  const PhaseJob& train() const noexcept { return train_; }
  const PhaseJob& val() const noexcept { return *val_; }
  const TrainerSummary& summary() const noexcept { return summary_; }
  const gpu::MemoryPlan& plan() const noexcept { return plan_; }
  /// Without dry runs.
  const gpu::JobNeed& need() const noexcept { return need_; }
  const JobIdentity& identity() const noexcept { return identity_; }
  /// The file to resume; empty for a new run.
  const std::filesystem::path& resumed_file() const noexcept { return resumed_file_; }
  const std::optional<RunFolder>& folder() const noexcept { return folder_; }
  /// What config.json says.
  std::string config_json() const;

  StepProgram program(Phase phase, std::size_t batch) const;

 private:
  void check_options() const;
  PhaseJob make_phase(Phase phase, const Pipeline& samples, std::size_t batch) const;
  gpu::PhaseBytes bytes(Phase phase, std::size_t batch);
  std::size_t largest_val_batch();
  gpu::PhaseNeed phase_need(const PhaseJob& phase, std::uint64_t cap_bytes);
  void make_identity();
  void check_resumed();

  std::shared_ptr<gpu::Device> device_;
  Runtime runtime_;
  TrainerOptions options_;
  std::vector<std::string> classes_;
  std::string train_source_;
  std::string val_source_;
  std::shared_ptr<Backend> backend_;
  ModelGraph graph_;
  ModelLayout layout_;
  StepOptions step_options_;
  PhaseJob train_;
  Pipeline val_samples_;
  std::map<std::pair<Phase, std::size_t>, gpu::PhaseBytes> known_bytes_;
  std::optional<PhaseJob> val_;
  TriangleSchedule schedule_;
  TrainerSummary summary_;
  gpu::JobNeed need_;
  gpu::MemoryPlan plan_;
  JobIdentity identity_;
  std::filesystem::path resumed_file_;
  std::optional<RunFolder> folder_;
};

/// Bytes of the pinned memory through which checkpoints and metrics pass: the model's state, then two sets of sums.
std::uint64_t staging_bytes(const ModelLayout& layout);

}  // namespace penstock::trainer
