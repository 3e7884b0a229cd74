// Only prefetch may stand behind the batch stage whose rows are written in place.
#include <penstock/pipeline/engine/batch_form.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace penstock::engine {
namespace {

// The last stage that is no prefetch.
std::size_t last_stage(const Plan& plan) {
  std::size_t at = plan.stages.size();
  while (at > 1 && std::holds_alternative<PrefetchStage>(plan.stages[at - 1])) --at;
  return at - 1;
}

Plan first_stages(const Plan& plan, std::size_t count) {
  Plan first = plan;
  first.stages.resize(count);
  first.schemas.resize(count + 1);
  return first;
}

// Batches of the rank with the longest part, in plans where that can be counted.
std::uint64_t batches_of_longest_rank(Plan plan) {
  bool sharded = false;
  for (Stage& stage : plan.stages) {
    auto* const shard = std::get_if<ShardStage>(&stage);
    if (!shard) continue;
    sharded = true;
    shard->rank = 0;
  }
  return sharded ? element_count(plan).value_or(0) : 0;
}

std::string last_writer(const Plan& plan, std::size_t stages, const std::string& field) {
  for (std::size_t i = stages; i > 0; --i) {
    if (const auto* const map = std::get_if<MapStage>(&plan.stages[i - 1])) {
      const bool writes = std::any_of(map->writes.begin(), map->writes.end(),
                                      [&](const std::string& name) { return name == "*" || name == field; });
      if (writes) return map->name;
    } else if (std::holds_alternative<std::shared_ptr<const StreamStage>>(plan.stages[i - 1])) {
      return stage_name(plan.stages[i - 1]);
    }
  }
  return "read";
}

std::shared_ptr<const BatchLayout> known_dimensions(const Schema& schema) {
  BatchLayout layout;
  for (const Field& field : schema.fields()) {
    BatchField known;
    known.field = field;
    if (field.shape.rank() > 0) {
      known.field.shape = Shape(field.shape.dims().subspan(1));
      if (field.shape[0] != Shape::kUnknown) layout.batch_size = static_cast<std::size_t>(field.shape[0]);
    }
    layout.fields.push_back(std::move(known));
  }
  return std::make_shared<const BatchLayout>(std::move(layout));
}

}  // namespace

BatchForm batch_form(const Plan& plan) {
  BatchForm form;
  const std::size_t at = last_stage(plan);
  const bool counts = plan.errors.action != OnError::kSkip;
  const auto* const batch = std::get_if<BatchStage>(&plan.stages[at]);
  form.stage = stage_name(plan.stages[at]);
  form.rows = batch != nullptr;
  if (!batch) {
    form.layout = known_dimensions(plan.schemas[at + 1]);
    return form;
  }
  form.layout = std::make_shared<const BatchLayout>(BatchLayout::of(plan.schemas[at], batch->size));
  form.last = batch->last;
  for (const BatchField& field : form.layout->fields) form.writers.push_back(last_writer(plan, at, field.field.name));
  if (counts) {
    form.elements = form.all_elements = element_count(first_stages(plan, at));
    if (form.elements && batch->last == LastBatch::kDrop) *form.elements -= *form.elements % batch->size;
  } else {
    form.least_batches = batches_of_longest_rank(plan);
  }
  return form;
}

bool keeps_elements(const Plan& plan) {
  const std::size_t last = plan.stages.empty() ? 0 : last_stage(plan);
  bool arithmetic = plan.source && plan.source->size();  // the order so far is worked out, nothing is held for it
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage)) {
      if ((*stream)->keeps_elements) return true;
      arithmetic = false;
    } else if (const auto* const map = std::get_if<MapStage>(&stage)) {
      arithmetic = arithmetic && !map->drops;
    } else if (const auto* const shuffle = std::get_if<ShuffleStage>(&stage)) {
      if (shuffle->options.buffer != 0) return true;
    } else if (const auto* const shard = std::get_if<ShardStage>(&stage)) {
      if (!arithmetic && shard->uneven == UnevenShards::kDrop) return true;
    } else if (std::holds_alternative<BatchStage>(stage) && i != last) {
      return true;
    }
  }
  return std::any_of(plan.inputs.begin(), plan.inputs.end(),
                     [](const std::shared_ptr<const Plan>& input) { return keeps_elements(*input); });
}

}  // namespace penstock::engine
