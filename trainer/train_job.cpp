// Everything that can be refused is refused here, in the order in which a person would look for it: options, data,
// model, resumed checkpoint, run folder. The plan may still not fit: that is an answer, not an error.
#include <penstock/trainer/train_job.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/label_check.h>
#include <penstock/trainer/models.h>
#include <penstock/trainer/step_plan.h>

namespace penstock::trainer {

namespace {

using Json = nlohmann::ordered_json;

const Shape& image_shape(const Pipeline& samples, const std::string& name) {
  const Schema& schema = samples.schema();
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(name + " data: " + why + "; the samples are " + schema.to_string());
  };
  const Field& image = schema[schema.index_of("image")];
  const Field& label = schema[schema.index_of("label")];
  if (image.type != DataType::kU8 || image.shape.rank() != 3 || !image.shape.known()) {
    refuse("`image` must be u8 [height, width, channels] of one known shape");
  }
  if (label.type != DataType::kI64 || label.shape.rank() != 0) refuse("`label` must be i64 []");
  return image.shape;
}

Normalisation normalisation_of(const Recipe& recipe, std::int64_t channels) {
  if (recipe.mean.size() != static_cast<std::size_t>(channels) || recipe.deviation.size() != recipe.mean.size()) {
    throw InvalidArgument("recipe " + recipe.name + ": mean and deviation are for " +
                          std::to_string(recipe.mean.size()) + " channels, the pictures have " +
                          std::to_string(channels));
  }
  Normalisation normalisation;
  for (std::size_t i = 0; i < recipe.mean.size(); ++i) {
    normalisation.mean[i] = static_cast<float>(recipe.mean[i]);
    normalisation.inverse_deviation[i] = static_cast<float>(1 / recipe.deviation[i]);
  }
  return normalisation;
}

std::string exact_text(double value) { return Json(value).dump(); }

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::uint64_t staging_bytes(const ModelLayout& layout) { return layout.state_bytes + 2 * gpu::kArenaAlignment; }

TrainJob::TrainJob(std::shared_ptr<gpu::Device> device, const Runtime& runtime, TrainerData data,
                   TrainerOptions options)
    : device_(std::move(device)),
      runtime_(runtime),
      options_(std::move(options)),
      classes_(std::move(data.classes)),
      train_source_(std::move(data.train_source)),
      val_source_(std::move(data.val_source)),
      backend_((check_options(), make_backend(*device_, runtime))),
      graph_(make_model(options_.model, {.width = options_.width,
                                         .input = image_shape(data.train, "training"),
                                         .class_count = static_cast<std::int64_t>(classes_.size()),
                                         .label_smoothing = static_cast<float>(options_.recipe.label_smoothing)})),
      layout_(graph_),
      train_(make_phase(Phase::kTrain, data.train, options_.batch)),
      val_samples_(data.val) {
  const Shape& input = graph_.values()[ModelGraph::input()].shape;
  if (image_shape(data.val, "validation") != input) {
    throw InvalidArgument("validation pictures are " + image_shape(data.val, "validation").to_string() +
                          ", training pictures " + input.to_string());
  }
  graph_.check_training_batch(options_.batch);

  const double weight_decay = options_.weight_decay.value_or(options_.recipe.weight_decay);
  const double peak = options_.learning_rate.value_or(options_.recipe.peak_learning_rate);
  step_options_ = {normalisation_of(options_.recipe, input[2]), static_cast<float>(options_.recipe.momentum),
                   static_cast<float>(weight_decay)};
  schedule_ = {peak, options_.recipe.peak_fraction, options_.epochs * train_.steps};

  val_ = make_phase(Phase::kVal, data.val, options_.val_batch != 0 ? options_.val_batch : largest_val_batch());
  summary_ = {.model = options_.model,
              .width = options_.width != 0 ? options_.width : default_width(options_.model),
              .parameter_count = graph_.parameter_count(),
              .batch = train_.batch,
              .val_batch = val_->batch,
              .steps_per_epoch = train_.steps,
              .dropped_per_epoch = train_.samples - train_.steps * train_.batch,
              .train_samples = train_.samples,
              .val_samples = val_->samples,
              .peak_learning_rate = peak,
              .weight_decay = weight_decay};

  need_.fixed = {{"device/model", layout_.total_bytes}, {"host/pinned/staging", staging_bytes(layout_)}};
  need_.phases = {phase_need(train_, options_.train_cap_bytes), phase_need(*val_, options_.val_cap_bytes)};
  need_.device_cap_bytes = options_.device_cap_bytes;
  need_.device_available_bytes = device_->memory_info().free_bytes;
  plan_ = gpu::plan_memory(need_);

  make_identity();
  if (!options_.resume.empty()) check_resumed();
  if (!options_.out.empty()) folder_.emplace(options_.out, resumed_file_);
}

void TrainJob::check_options() const {
  default_width(options_.model);
  if (options_.epochs == 0) throw InvalidArgument("the number of epochs must be at least 1");
  if (options_.batch == 0) throw InvalidArgument("the training batch must be at least 1");
  if (options_.depth == 0) throw InvalidArgument("the feed depth must be at least 1");
  if (options_.pinned_depth < 2) throw InvalidArgument("the pinned depth must be at least 2");
  if (classes_.empty()) throw InvalidArgument("the data have no classes");
  const auto check_number = [](const char* name, const std::optional<double>& value, bool zero_allowed) {
    if (!value || (std::isfinite(*value) && (*value > 0 || (zero_allowed && *value == 0)))) return;
    throw InvalidArgument(std::string("the ") + name + " must be a number " + (zero_allowed ? "from 0 on" : "above 0"));
  };
  check_number("learning rate", options_.learning_rate, false);
  check_number("weight decay", options_.weight_decay, true);
}

PhaseJob TrainJob::make_phase(Phase phase, const Pipeline& samples, std::size_t batch) const {
  const bool is_train = phase == Phase::kTrain;
  const std::string set = is_train ? "training" : "validation";
  const std::optional<std::uint64_t> size = samples.size();
  if (!size) throw InvalidArgument("the " + set + " data have no known size");
  if (*size == 0) throw InvalidArgument("the " + set + " set is empty");
  if (is_train && *size < batch) {
    throw InvalidArgument("the training set has " + std::to_string(*size) + " samples, fewer than one batch of " +
                          std::to_string(batch) + ": the training batch can be at most " + std::to_string(*size));
  }
  Pipeline batches = samples.map(check_label(static_cast<std::int64_t>(classes_.size())))
                         .batch(batch, is_train ? LastBatch::kDrop : LastBatch::kKeep);
  const std::uint64_t steps = is_train ? *size / batch : (*size + batch - 1) / batch;
  return {phase, is_train ? "train" : "val", std::move(batches), batch, *size, steps};
}

StepProgram TrainJob::program(Phase phase, std::size_t batch) const {
  return phase == Phase::kTrain ? training_program(graph_, layout_, batch, *backend_, step_options_)
                                : evaluation_program(graph_, layout_, batch, *backend_, step_options_);
}

gpu::PhaseBytes TrainJob::bytes(Phase phase, std::size_t batch) {
  const auto [at, is_new] = known_bytes_.try_emplace({phase, batch});
  if (is_new) {
    // Both phases have the same fields: `image` and `label`.
    at->second = {plan_steps(program(phase, batch)).peak_bytes,
                  BatchLayout::of(val_samples_.schema(), batch).size_bytes};
  }
  return at->second;
}

std::size_t TrainJob::largest_val_batch() {
  const auto ring_bytes = [&](const gpu::PhaseBytes& need) {
    return gpu::round_up(options_.depth * gpu::round_up(need.slot_bytes, gpu::kArenaAlignment), gpu::kSlabGranule);
  };
  const std::uint64_t device_bytes = std::min(options_.device_cap_bytes, device_->memory_info().free_bytes);
  const gpu::PhaseBytes train = bytes(Phase::kTrain, options_.batch);
  const std::uint64_t fixed = gpu::round_up(layout_.total_bytes, gpu::kSlabGranule) + ring_bytes(train);
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(options_.batch, val_samples_.size().value_or(1)));
  for (std::size_t batch = most; batch > 0; --batch) {
    const gpu::PhaseBytes val = bytes(Phase::kVal, batch);
    const std::uint64_t arena = std::max(gpu::lease_bytes(train), gpu::lease_bytes(val));
    if (ring_bytes(val) + gpu::lease_bytes(val) <= options_.val_cap_bytes &&
        fixed + ring_bytes(val) + arena <= device_bytes) {
      return batch;
    }
  }
  return std::max<std::size_t>(most, 1);  // none fits: the plan will say why
}

gpu::PhaseNeed TrainJob::phase_need(const PhaseJob& phase, std::uint64_t cap_bytes) {
  return {.name = phase.name,
          .batch = phase.batch,
          .depth = options_.depth,
          .pinned_depth = options_.pinned_depth,
          .cap_bytes = cap_bytes,
          .sample_count = phase.samples,
          .bytes = [this, kind = phase.phase](std::size_t batch) { return bytes(kind, batch); },
          .dry_run = {}};
}

void TrainJob::make_identity() {
  identity_ = {{"model", options_.model},
               {"width", std::to_string(summary_.width)},
               {"pictures", graph_.values()[ModelGraph::input()].shape.to_string()},
               {"batch", std::to_string(train_.batch)},
               {"seed", std::to_string(options_.seed)},
               {"epochs", std::to_string(options_.epochs)},
               {"peak learning rate", exact_text(summary_.peak_learning_rate)},
               {"weight decay", exact_text(summary_.weight_decay)},
               {"training samples", std::to_string(train_.samples)},
               {"validation samples", std::to_string(val_->samples)},
               {"classes", join(classes_)}};
  const Json recipe = Json::parse(recipe_to_json(options_.recipe));
  for (const auto& [name, value] : recipe.items()) identity_.emplace_back("recipe " + name, value.dump());
}

void TrainJob::check_resumed() {
  resumed_file_ = find_checkpoint(options_.resume);
  CheckpointState state;
  try {
    state = read_checkpoint_state(resumed_file_);
  } catch (const CheckpointCorrupt& damage) {
    const std::filesystem::path before = checkpoint_before(resumed_file_);
    if (before.empty()) throw;
    throw CheckpointCorrupt(std::string(damage.what()) + "; the one before is \"" + before.string() + "\"");
  }
  const std::string differences = identity_differences(state.identity, identity_);
  if (!differences.empty()) {
    throw InvalidArgument("checkpoint \"" + resumed_file_.string() + "\" is of another job: " + differences);
  }
}

std::string TrainJob::config_json() const {
  const auto cap = [](std::uint64_t bytes) { return bytes == gpu::kNoCap ? Json(nullptr) : Json(bytes); };
  return Json{{"model", summary_.model},
              {"width", summary_.width},
              {"parameters", summary_.parameter_count},
              {"train", train_source_},
              {"val", val_source_},
              {"train_samples", summary_.train_samples},
              {"val_samples", summary_.val_samples},
              {"epochs", options_.epochs},
              {"batch", summary_.batch},
              {"val_batch", summary_.val_batch},
              {"train_cap_bytes", cap(options_.train_cap_bytes)},
              {"val_cap_bytes", cap(options_.val_cap_bytes)},
              {"device_cap_bytes", cap(options_.device_cap_bytes)},
              {"peak_learning_rate", summary_.peak_learning_rate},
              {"weight_decay", summary_.weight_decay},
              {"seed", options_.seed},
              {"depth", options_.depth},
              {"pinned_depth", options_.pinned_depth},
              {"device", device_->name()},
              {"resume", resumed_file_.string()},
              {"recipe", Json::parse(recipe_to_json(options_.recipe))}}
      .dump(2);
}

}  // namespace penstock::trainer
