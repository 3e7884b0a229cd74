// What can be said about a plan without running it.
#include <penstock/pipeline/plan.h>

#include <algorithm>

#include <penstock/pipeline/order/order.h>

namespace penstock {
namespace {

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

std::optional<std::uint64_t> batches_of(std::optional<std::uint64_t> elements, const BatchStage& batch) {
  if (!elements) return std::nullopt;
  const bool short_one =
      *elements % batch.size != 0 && (batch.last == LastBatch::kKeep || batch.last == LastBatch::kPad);
  return *elements / batch.size + (short_one ? 1 : 0);
}

}  // namespace

std::string stage_name(const Stage& stage) {
  return std::visit(
      Cases{[](const MapStage& map) { return map.name; }, [](const ShuffleStage&) { return std::string("shuffle"); },
            [](const RepeatStage&) { return std::string("repeat"); },
            [](const TakeStage&) { return std::string("take"); }, [](const SkipStage&) { return std::string("skip"); },
            [](const ShardStage&) { return std::string("shard"); },
            [](const CacheStage&) { return std::string("cache"); },
            [](const BatchStage&) { return std::string("batch"); },
            [](const PrefetchStage&) { return std::string("prefetch"); },
            [](const std::shared_ptr<const StreamStage>& stream) { return stream->name; }},
      stage);
}

bool is_flat(const Plan& plan) {
  if (!plan.source || !plan.source->size() || plan.errors.action == OnError::kSkip) return false;
  bool batched = false;
  for (const Stage& stage : plan.stages) {
    if (std::holds_alternative<PrefetchStage>(stage)) continue;
    if (batched || std::holds_alternative<std::shared_ptr<const StreamStage>>(stage)) return false;
    if (const auto* const map = std::get_if<MapStage>(&stage); map && map->drops) return false;
    if (const auto* const shuffle = std::get_if<ShuffleStage>(&stage); shuffle && shuffle->options.buffer != 0) {
      return false;
    }
    batched = std::holds_alternative<BatchStage>(stage);
  }
  return batched;
}

std::optional<std::uint64_t> element_count(const Plan& plan) {
  std::optional<std::uint64_t> count = plan.source ? plan.source->size() : std::nullopt;
  std::vector<std::optional<std::uint64_t>> inputs;
  for (const std::shared_ptr<const Plan>& input : plan.inputs) inputs.push_back(element_count(*input));
  for (const Stage& stage : plan.stages) {
    if (const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage)) {
      if (plan.source || &stage != plan.stages.data()) inputs = {count};
      count = (*stream)->size(inputs);
    } else if (const auto* const batch = std::get_if<BatchStage>(&stage)) {
      count = batches_of(count, *batch);
    } else if (const auto* const map = std::get_if<MapStage>(&stage)) {
      if (map->drops) count = std::nullopt;
    } else if (count) {
      count = order::Order(*count, {&stage, 1}, 0).size();
    }
  }
  return count;
}

}  // namespace penstock
