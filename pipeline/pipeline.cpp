// Builds plans and checks each stage where it is added, so that a wrong pipeline is refused before anything runs.
#include <penstock/pipeline/pipeline.h>

#include <atomic>
#include <random>
#include <utility>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/order/order.h>

namespace penstock {
namespace {

void require_before_batch(const Plan& plan, const std::string& name) {
  if (find_stage<BatchStage>(plan)) {
    throw InvalidArgument(name + ": it stands after batch, where only prefetch can; move it before batch");
  }
}

std::optional<std::uint64_t> slots_of(const Plan& plan) {
  const std::optional<std::uint64_t> source_size = plan.source->size();
  if (!source_size) return std::nullopt;
  return order::Order(*source_size, plan.stages, 0).size();
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
  plan->source = std::move(source);
  plan_ = std::move(plan);
}

Pipeline Pipeline::with(Stage stage, Schema after) const {
  auto plan = std::make_shared<Plan>(*plan_);
  plan->stages.push_back(std::move(stage));
  plan->schemas.push_back(std::move(after));
  return Pipeline(std::shared_ptr<const Plan>(std::move(plan)));
}

Pipeline Pipeline::map(MapStage stage) const {
  if (stage.name.empty()) throw InvalidArgument("map: a stage without a name");
  if (!stage.output || !stage.bind) throw InvalidArgument(stage.name + ": a stage without a function");
  require_before_batch(*plan_, stage.name);
  if (stage.identity.empty()) stage.identity = nameless_identity();
  Schema after;
  try {
    after = stage.output(schema());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(stage.name + ": " + error.what());
  }
  return with(std::move(stage), std::move(after));
}

Pipeline Pipeline::shuffle(Shuffle options) const {
  require_before_batch(*plan_, "shuffle");
  if (!slots_of(*plan_)) throw InvalidArgument("shuffle: the source does not know how many samples it has");
  return with(ShuffleStage{options}, schema());
}

Pipeline Pipeline::repeat(std::uint64_t count) const {
  require_before_batch(*plan_, "repeat");
  if (count == 0) throw InvalidArgument("repeat: 0 times; at least 1 is needed (take(0) makes an empty pipeline)");
  Pipeline repeated = with(RepeatStage{count}, schema());
  static_cast<void>(slots_of(*repeated.plan_));
  return repeated;
}

Pipeline Pipeline::take(std::uint64_t count) const {
  require_before_batch(*plan_, "take");
  return with(TakeStage{count}, schema());
}

Pipeline Pipeline::skip(std::uint64_t count) const {
  require_before_batch(*plan_, "skip");
  return with(SkipStage{count}, schema());
}

Pipeline Pipeline::shard(std::uint64_t rank, std::uint64_t world) const {
  require_before_batch(*plan_, "shard");
  if (world == 0 || rank >= world) {
    throw InvalidArgument("shard: rank " + std::to_string(rank) + " of " + std::to_string(world) +
                          "; ranks are counted from 0 and lie below the number of ranks");
  }
  return with(ShardStage{rank, world}, schema());
}

Pipeline Pipeline::cache(std::shared_ptr<SampleStore> store) const {
  require_before_batch(*plan_, "cache");
  if (!store) throw InvalidArgument("cache: there is no store");
  if (find_stage<CacheStage>(*plan_)) throw InvalidArgument("cache: the pipeline has one already");
  for (const Stage& stage : plan_->stages) {
    const auto* const map = std::get_if<MapStage>(&stage);
    if (map && map->draws) {
      throw InvalidArgument("cache: after the random stage \"" + map->name +
                            "\" every epoch would see the same variant; move it before");
    }
  }
  return with(CacheStage{std::move(store)}, schema());
}

Pipeline Pipeline::batch(std::size_t size, LastBatch last) const {
  require_before_batch(*plan_, "batch");
  if (size == 0) throw InvalidArgument("batch: a size of 0; at least 1 is needed");
  try {
    static_cast<void>(BatchLayout::of(schema(), size));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(std::string("batch: ") + error.what());
  }
  const std::optional<std::uint64_t> slots = slots_of(*plan_);
  if (last == LastBatch::kRefuse && slots && *slots % size != 0) {
    throw InvalidArgument("batch: " + std::to_string(*slots) + " samples an epoch do not divide into batches of " +
                          std::to_string(size) + ", " + std::to_string(*slots % size) +
                          " would be left; keep or drop them (LastBatch::kKeep, LastBatch::kDrop)");
  }
  return with(BatchStage{size, last}, schema());
}

Pipeline Pipeline::prefetch(std::size_t batches) const {
  if (!find_stage<BatchStage>(*plan_)) throw InvalidArgument("prefetch: it counts batches; put it after batch");
  if (find_stage<PrefetchStage>(*plan_)) throw InvalidArgument("prefetch: the pipeline has one already");
  if (batches > 65536) {
    throw InvalidArgument("prefetch: " + std::to_string(batches) + " batches; at most 65536 are possible");
  }
  return with(PrefetchStage{batches}, schema());
}

std::optional<std::uint64_t> Pipeline::size() const {
  const std::optional<std::uint64_t> slots = slots_of(*plan_);
  const auto* const batch = find_stage<BatchStage>(*plan_);
  if (!slots || !batch) return slots;
  const bool short_one = batch->last == LastBatch::kKeep && *slots % batch->size != 0;
  return *slots / batch->size + (short_one ? 1 : 0);
}

}  // namespace penstock
