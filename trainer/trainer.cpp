// The public face of a job and its run.
#include <penstock/trainer/trainer.h>

#include <stdexcept>
#include <utility>

#include <penstock/trainer/train_job.h>
#include <penstock/trainer/train_run.h>

namespace penstock::trainer {

class Trainer::Impl {
 public:
  Impl(std::shared_ptr<gpu::Device> device, const Runtime& runtime, TrainerData data, TrainerOptions options)
      : job(std::move(device), runtime, std::move(data), std::move(options)) {}

  TrainJob job;
  bool was_run = false;
};

Trainer::Trainer(std::shared_ptr<gpu::Device> device, const Runtime& runtime, TrainerData data, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(device), runtime, std::move(data), std::move(options))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

const TrainerSummary& Trainer::summary() const { return impl_->job.summary(); }
const gpu::MemoryPlan& Trainer::plan() const { return impl_->job.plan(); }

TrainResult Trainer::run(TrainObserver& observer, std::stop_token stop) {
  if (std::exchange(impl_->was_run, true)) throw std::logic_error("a trainer runs once");
  TrainRun run(impl_->job, observer, std::move(stop));
  return run.run();
}

}  // namespace penstock::trainer
