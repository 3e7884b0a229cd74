// The loop never waits for the device while it enqueues steps: the feed's ring bounds how far it runs ahead, sums are
// read at the end of a phase, and a loss that is not finite is looked for through an event that is only ever queried.
#include <penstock/trainer/train_run.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/model_hash.h>
#include <penstock/trainer/step_plan.h>

namespace penstock::trainer {

namespace {

constexpr std::uint64_t kProbeSteps = 16;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double TrainRun::Meter::seconds() const { return earlier_seconds + seconds_since(start); }

TrainRun::TrainRun(TrainJob& job, TrainObserver& observer, std::stop_token stop)
    : job_(job),
      observer_(observer),
      stop_(std::move(stop)),
      device_(*job.device()),
      memory_(gpu::take_memory(job.device(), accounts_, job.need())),
      stream_(device_.create_stream("compute", true)),
      step_done_(device_.create_event()),
      probe_done_(device_.create_event()),
      executor_(device_, stream_, job.backend()),
      model_(memory_.fixed.at("device/model").data()),
      staging_(memory_.fixed_pinned.at("host/pinned/staging").data()),
      folder_(job.folder()),
      train_(make_runner(job.train())),
      val_(make_runner(job.val())) {
  observer_.on_plan(memory_.plan);
  prove();
}

TrainRun::~TrainRun() {
  try {
    device_.synchronize(stream_);
  } catch (const std::exception&) {
    // The failure has been told to whoever waited for it.
  }
}

TrainRun::Runner TrainRun::make_runner(const PhaseJob& job) {
  StepProgram program = job_.program(job.phase, job.batch);
  StepPlan plan = plan_steps(program);
  Runner runner;
  runner.job = &job;
  runner.account = accounts_.phase(job.name);
  runner.lease_bytes = gpu::lease_bytes({plan.peak_bytes, 0});
  runner.program =
      std::make_shared<const BoundProgram>(std::move(program), std::move(plan), memory_.step_arena.data(), model_);
  runner.image = job.batches.schema().index_of("image");
  runner.label = job.batches.schema().index_of("label");
  return runner;
}

void TrainRun::prove() {
  gpu::JobNeed need = job_.need();
  need.phases[0].dry_run = [this] {
    dry_run(train_);
    read_state();
  };
  need.phases[1].dry_run = [this] { dry_run(val_); };
  gpu::prove_plan(device_, accounts_, need, memory_);
}

void TrainRun::dry_run(Runner& runner) {
  const BatchLayout layout = BatchLayout::of(runner.job->batches.schema(), runner.job->batch);
  const std::byte* const slot = memory_.feeds.at(runner.job->name).slots.data();
  const StepInput input{slot + layout.fields[runner.image].offset,
                        slot + layout.fields[runner.label].offset,
                        {0, static_cast<std::int32_t>(runner.job->batch)}};
  const Clock::time_point start = Clock::now();
  executor_.run(runner.program, input);
  device_.synchronize(stream_);
  runner.step_seconds = seconds_since(start);
  read_metrics(job_.layout().val_metrics);
}

void TrainRun::open_feed(Runner& runner, Position start, int priority) {
  gpu::FeedMemory& memory = memory_.feeds.at(runner.job->name);
  LoaderOptions options;
  options.epoch_count = job_.options().epochs;
  options.priority = priority;
  options.seed = job_.options().seed;
  options.memory = gpu::make_pinned_ring(memory);
  options.start = start;
  runner.feed.emplace(job_.device(), memory, Loader(job_.runtime(), runner.job->batches, std::move(options)));
}

// Preflight has left all memory zero.
void TrainRun::load_state() {
  std::vector<std::byte> model;
  if (job_.resumed_file().empty()) {
    model = initial_state(job_.graph(), job_.layout(), job_.options().seed);
    state_.identity = job_.identity();
    state_.classes = job_.classes();
    state_.recipe = recipe_to_json(job_.options().recipe);
  } else {
    Checkpoint checkpoint = read_checkpoint(job_.resumed_file(), job_.graph(), job_.layout());
    model = std::move(checkpoint.model);
    state_ = std::move(checkpoint.state);
    result_.rows = state_.rows;
    for (const EpochRow& row : state_.rows) {
      if (row.val_top1 > best_top1_) best_top1_ = row.val_top1;
    }
    observer_.on_notice("resumed \"" + job_.resumed_file().string() + "\": epoch " + std::to_string(state_.epoch + 1) +
                        (state_.phase == CheckpointPhase::kValidationPending
                             ? ", validation first"
                             : ", step " + std::to_string(state_.epoch_steps + 1)));
  }
  std::memcpy(staging_, model.data(), model.size());
  device_.copy_to_device(model_, staging_, model.size(), stream_);
  device_.synchronize(stream_);
}

TrainResult TrainRun::run() {
  load_state();
  open_feed(train_, state_.position, 1);
  open_feed(val_, {state_.epoch, 0}, 0);
  if (folder_) {
    folder_->begin(job_.config_json(), job_.classes(), memory_.plan);
    folder_->write_rows(state_.rows);
  }
  if (job_.summary().dropped_per_epoch != 0) {
    observer_.on_notice("training takes full batches only: " + std::to_string(job_.summary().dropped_per_epoch) +
                        " of " + std::to_string(job_.summary().train_samples) +
                        " samples are left out of each epoch, others each time");
  }
  const std::uint64_t epochs = job_.options().epochs;
  const std::stop_callback stop_loaders(stop_, [this] {
    train_.feed->loader().stop();
    val_.feed->loader().stop();
  });
  try {
    bool pending = state_.phase == CheckpointPhase::kValidationPending;
    while (state_.epoch < epochs) {
      if (!pending) train_epoch();
      pending = false;
      validate();
      ++state_.epoch;
      state_.epoch_steps = 0;
      state_.epoch_seconds = 0;
      state_.epoch_wait_seconds = 0;
    }
  } catch (const Stopped&) {
    if (!stop_.stop_requested()) throw;
    result_.stopped = true;
  }
  result_.weights_hash = model_hash(job_.layout(), read_state());
  return std::move(result_);
}

std::optional<gpu::DeviceBatch> TrainRun::next_batch(Runner& runner, Meter& meter) {
  if (stop_.stop_requested()) throw Stopped("a stop was requested");
  const bool was_idle = !step_recorded_ || device_.query(step_done_);
  const Clock::time_point start = Clock::now();
  std::optional<gpu::DeviceBatch> batch = runner.feed->next();
  // The device waited for data only if it had nothing left to do: from the start, or after the one step it still had.
  if (!step_recorded_ || device_.query(step_done_)) {
    const double waited = seconds_since(start) - (was_idle ? 0 : runner.step_seconds);
    meter.wait_seconds += std::max(waited, 0.0);
    meter.done_samples = meter.samples;
  }
  return batch;
}

void TrainRun::enqueue_step(Runner& runner, gpu::DeviceBatch batch, float learning_rate) {
  const StepInput input{
      batch.field(runner.image), batch.field(runner.label), {learning_rate, static_cast<std::int32_t>(batch.size())}};
  batch.wait_on(stream_);
  executor_.begin(runner.program, input);
  batch.release(stream_);
  executor_.run(runner.program, input, 1);
  device_.record(step_done_, stream_);
  step_recorded_ = true;
}

void TrainRun::report(const Runner& runner, Meter& meter, std::uint64_t step) {
  const double seconds = std::max(meter.seconds(), 1e-9);
  const double fresh_seconds = std::max(seconds - meter.earlier_seconds, 1e-9);
  // The ring lets the host run ahead of the device by this many steps, and all before them are done.
  const std::uint64_t ahead = (job_.options().depth + job_.options().pinned_depth + 1) * runner.job->batch;
  if (meter.samples > ahead) meter.done_samples = std::max(meter.done_samples, meter.samples - ahead);
  StepProgress progress;
  progress.phase = runner.job->phase;
  progress.epoch = state_.epoch + 1;
  progress.epochs = job_.options().epochs;
  progress.step = step;
  progress.steps = runner.job->steps;
  progress.samples = meter.samples;
  progress.images_per_s = static_cast<double>(meter.done_samples) / fresh_seconds;
  progress.data_wait_share = meter.wait_seconds / seconds;
  if (runner.job->phase == Phase::kTrain && meter.done_samples != 0) {
    const std::uint64_t left = job_.schedule().step_count - state_.epoch * runner.job->steps - step;
    progress.run_seconds_left = static_cast<double>(left * runner.job->batch) / progress.images_per_s;
  }
  observer_.on_step(progress);
}

void TrainRun::train_epoch() {
  const gpu::Charge lease = train_.account.lease(train_.lease_bytes, "step");
  const std::uint64_t first_step = state_.epoch * job_.train().steps;
  if (state_.epoch_steps == 0) clear_metrics(job_.layout().train_metrics);
  epoch_meter_ = Meter{.earlier_seconds = state_.epoch_seconds, .wait_seconds = state_.epoch_wait_seconds};
  while (std::optional<gpu::DeviceBatch> batch = next_batch(train_, epoch_meter_)) {
    if (batch->size() != job_.train().batch) continue;  // rows before a failed sample: the error comes next
    state_.position = batch->position();
    enqueue_step(train_, std::move(*batch), job_.schedule().at(first_step + state_.epoch_steps));
    ++state_.epoch_steps;
    ++result_.steps;
    epoch_meter_.samples += job_.train().batch;
    report(train_, epoch_meter_, state_.epoch_steps);
    probe_loss();
    if (state_.epoch_steps == 1) val_.feed->warm_up();
    const std::uint64_t every = job_.options().checkpoint_steps;
    if (every != 0 && state_.epoch_steps % every == 0 && state_.epoch_steps != job_.train().steps) {
      save(CheckpointPhase::kTraining);
    }
  }
  const MetricSums sums = read_metrics(job_.layout().train_metrics);
  probe_pending_ = false;
  if (sums.not_finite != 0) refuse_loss(sums);
  state_.position = {state_.epoch + 1, 0};
  result_.train_seconds += epoch_meter_.seconds() - epoch_meter_.earlier_seconds;
  save(CheckpointPhase::kValidationPending);
}

void TrainRun::validate() {
  const gpu::Charge lease = val_.account.lease(val_.lease_bytes, "step");
  clear_metrics(job_.layout().val_metrics);
  Meter meter;
  std::uint64_t step = 0;
  while (std::optional<gpu::DeviceBatch> batch = next_batch(val_, meter)) {
    meter.samples += batch->size();
    enqueue_step(val_, std::move(*batch), 0);
    report(val_, meter, ++step);
  }
  const Metrics val = metrics_of(read_metrics(job_.layout().val_metrics));
  const Metrics train = metrics_of(read_metrics(job_.layout().train_metrics));

  EpochRow row;
  row.epoch = state_.epoch + 1;
  row.train_loss = train.loss;
  row.train_top1 = train.top1;
  row.val_loss = val.loss;
  row.val_top1 = val.top1;
  row.val_top5 = val.top5;
  const double seconds = std::max(state_.epoch_seconds, 1e-9);
  row.images_per_s = static_cast<double>(job_.train().steps * job_.train().batch) / seconds;
  row.data_wait_share = state_.epoch_wait_seconds / seconds;
  row.accounts = accounts_.figures();
  state_.rows.push_back(row);
  result_.rows = state_.rows;
  if (folder_) {
    folder_->write_rows(state_.rows);
    if (row.val_top1 > best_top1_) folder_->set_best(folder_->checkpoint_file(row.epoch, std::nullopt));
  }
  best_top1_ = std::max(best_top1_, row.val_top1);
  observer_.on_epoch(row);
}

void TrainRun::clear_metrics(std::uint64_t offset) { device_.fill(model_ + offset, 0, sizeof(MetricSums), stream_); }

MetricSums TrainRun::read_metrics(std::uint64_t offset) {
  std::byte* const to = staging_ + job_.layout().state_bytes + gpu::kArenaAlignment;
  device_.copy_to_host(to, model_ + offset, sizeof(MetricSums), stream_);
  device_.synchronize(stream_);
  MetricSums sums;
  std::memcpy(&sums, to, sizeof sums);
  return sums;
}

void TrainRun::probe_loss() {
  std::byte* const to = staging_ + job_.layout().state_bytes;
  if (probe_pending_) {
    if (!device_.query(probe_done_)) return;
    probe_pending_ = false;
    MetricSums sums;
    std::memcpy(&sums, to, sizeof sums);
    if (sums.not_finite != 0) refuse_loss(sums);
  }
  if (state_.epoch_steps % kProbeSteps != 0) return;
  device_.copy_to_host(to, model_ + job_.layout().train_metrics, sizeof(MetricSums), stream_);
  device_.record(probe_done_, stream_);
  probe_pending_ = true;
}

void TrainRun::refuse_loss(const MetricSums& sums) const {
  std::ostringstream peak;
  peak << job_.schedule().peak;
  throw Error("the training loss is not finite in epoch " + std::to_string(state_.epoch + 1) + ": " +
              std::to_string(sums.not_finite) + " of " + std::to_string(sums.count) +
              " samples; the peak learning rate is " + peak.str() + ", a lower one may help");
}

const std::byte* TrainRun::read_state() {
  device_.copy_to_host(staging_, model_, job_.layout().state_bytes, stream_);
  device_.synchronize(stream_);
  return staging_;
}

void TrainRun::save(CheckpointPhase phase) {
  state_.phase = phase;
  state_.epoch_seconds = epoch_meter_.seconds();
  state_.epoch_wait_seconds = epoch_meter_.wait_seconds;
  if (!folder_) return;
  const bool is_end = phase == CheckpointPhase::kValidationPending;
  const std::filesystem::path file = folder_->checkpoint_file(
      state_.epoch + 1, is_end ? std::nullopt : std::optional<std::uint64_t>(state_.epoch_steps));
  write_checkpoint(file, job_.graph(), job_.layout(), state_, read_state());
  folder_->set_last(file);
  result_.last_checkpoint = file;
  observer_.on_checkpoint(file);
}

}  // namespace penstock::trainer
