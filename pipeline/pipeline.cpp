// Builds plans and checks each stage where it is added, so that a wrong pipeline is refused before anything runs.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

// Fields of one sample, from those of batches of batches ...
Schema without_leading_dimensions(const Schema& schema, int count) {
  if (count == 0) return schema;
  std::vector<Field> fields = schema.fields();
  for (Field& field : fields) {
    const std::size_t drop = std::min(static_cast<std::size_t>(count), field.shape.rank());
    field.shape = Shape(field.shape.dims().subspan(drop));
  }
  return Schema(std::move(fields));
}

/// Good within this process only: a function without a name cannot be told from another one.
std::string nameless_identity() {
  static const std::uint64_t process = [] {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) | device();
  }();
  static std::atomic<std::uint64_t> count{0};
  return "nameless " + std::to_string(process) + " " + std::to_string(count.fetch_add(1));
}

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const Source> source) {
  if (!source) throw InvalidArgument("pipeline: there is no source");
  auto plan = std::make_shared<Plan>();
  plan->schemas = {source->schema()};
  plan->row_schema = source->schema();
  plan->source = std::move(source);
  plan_ = std::move(plan);
}

Pipeline Pipeline::with(Stage stage, Schema after) const {
  auto plan = std::make_shared<Plan>(*plan_);
  if (std::holds_alternative<BatchStage>(stage)) ++plan->batch_depth;
  if (const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage)) {
    plan->batch_depth = std::max(0, plan->batch_depth + (*stream)->batch_depth);
  }
  plan->row_schema = without_leading_dimensions(after, plan->batch_depth);
  plan->stages.push_back(std::move(stage));
  plan->schemas.push_back(std::move(after));
  return Pipeline(std::shared_ptr<const Plan>(std::move(plan)));
}

Pipeline Pipeline::beginning(StreamStage stage, const std::vector<Pipeline>& inputs, Schema after) {
  auto plan = std::make_shared<Plan>();
  for (const Pipeline& input : inputs) {
    if (input.plan().errors != ErrorPolicy{}) {
      throw InvalidArgument(stage.name + ": an input has an error policy of its own; say on_error after " + stage.name);
    }
    plan->inputs.push_back(input.shared_plan());
  }
  plan->stages.push_back(std::make_shared<const StreamStage>(std::move(stage)));
  plan->schemas = {Schema{}, after};
  plan->row_schema = std::move(after);
  return Pipeline(std::shared_ptr<const Plan>(std::move(plan)));
}

Pipeline Pipeline::map(MapStage stage) const {
  if (stage.name.empty()) throw InvalidArgument("map: a stage without a name");
  if (!stage.output || !stage.bind) throw InvalidArgument(stage.name + ": a stage without a function");
  if (stage.identity.empty()) stage.identity = nameless_identity();
  Schema after;
  try {
    after = stage.output(plan_->schemas.back());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(stage.name + ": " + error.what());
  }
  return with(std::move(stage), std::move(after));
}

Pipeline Pipeline::on_error(ErrorPolicy policy) const {
  if (plan_->errors != ErrorPolicy{}) throw InvalidArgument("on_error: the pipeline has a policy already");
  if (policy.action == OnError::kFail && policy != ErrorPolicy{}) {
    throw InvalidArgument("on_error: kFail tolerates no failure; it takes no limit");
  }
  auto plan = std::make_shared<Plan>(*plan_);
  plan->errors = policy;
  return Pipeline(std::shared_ptr<const Plan>(std::move(plan)));
}

std::optional<std::uint64_t> Pipeline::size() const { return element_count(*plan_); }

}  // namespace penstock
