// The last map that writes a field is found by name from the end; its value goes to the batch's row at once.
#include <penstock/pipeline/engine/chain.h>

#include <algorithm>

#include <penstock/pipeline/engine/block.h>

namespace penstock::engine {
namespace {

bool writes(const MapStage& map, const std::string& field) {
  return std::any_of(map.writes.begin(), map.writes.end(),
                     [&](const std::string& name) { return name == "*" || name == field; });
}

}  // namespace

Chain::Chain(const Plan& plan) {
  std::vector<const MapStage*> stages;
  std::vector<const Schema*> outputs;
  std::vector<std::string> identities;
  std::uint32_t draw_count = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (const auto* const map = std::get_if<MapStage>(&plan.stages[i])) {
      maps.push_back({map->name, map->bind(plan.schemas[i]), map->draws, draw_count,
                      std::vector<std::int32_t>(plan.schemas[i + 1].size(), -1)});
      if (map->draws) ++draw_count;
      stages.push_back(map);
      outputs.push_back(&plan.schemas[i + 1]);
      if (!store) identities.push_back(map->identity);
    } else if (const auto* const cache = std::get_if<CacheStage>(&plan.stages[i])) {
      store = cache->store;
      cache_at = maps.size();
      cached = plan.schemas[i];
    } else if (const auto* const batch = std::get_if<BatchStage>(&plan.stages[i])) {
      layout = BatchLayout::of(plan.schemas[i], batch->size);
    }
  }
  keys = CacheKeys(identities);

  const Schema& source = plan.schemas.front();
  source_fields = source.size();
  for (const Field& field : source.fields()) source_types.push_back(field.type);
  source_destinations.assign(source.size(), -1);
  for (std::size_t f = 0; f < layout.fields.size(); ++f) {
    const std::string& name = layout.fields[f].field.name;
    std::size_t m = stages.size();
    while (m > 0 && !writes(*stages[m - 1], name)) --m;
    final_fields.push_back(static_cast<std::int32_t>(m) - 1);
    const Schema& schema = m > 0 ? *outputs[m - 1] : source;
    std::vector<std::int32_t>& destinations = m > 0 ? maps[m - 1].destinations : source_destinations;
    for (std::size_t at = 0; at < schema.size(); ++at) {
      if (schema[at].name == name) destinations[at] = static_cast<std::int32_t>(f);
    }
  }
  set_up_columns(plan);
}

void Chain::set_up_columns(const Plan& plan) {
  if (store || plan.errors.action != OnError::kFail) return;
  std::vector<SourceColumn> source;
  for (std::size_t f = 0; f < source_fields; ++f) {
    const Field& field = plan.schemas.front()[f];
    const std::byte* const data = plan.source->column(f);
    if (!data) return;
    source.push_back({data, static_cast<std::size_t>(field.shape.element_count()) * byte_size(field.type)});
  }
  std::vector<ColumnStep> bound;
  std::vector<std::size_t> sets(source_fields, 0);
  std::size_t scratch = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto* const map = std::get_if<MapStage>(&plan.stages[i]);
    if (!map) continue;
    if (!map->bind_column || map->draws || map->drops) return;
    ColumnStep step{map->bind_column(plan.schemas[i])};
    step.destination = maps[bound.size()].destinations[step.map.field];
    if (step.destination < 0) {
      if (step.map.out_bytes > kMostColumnScratch) return;
      scratch += step.map.out_bytes;
      step.set = sets[step.map.field]++ % 2;
    }
    bound.push_back(std::move(step));
  }
  by_columns = true;
  columns = std::move(source);
  steps = std::move(bound);
  column_scratch = scratch;
}

const std::string& Chain::stage_name(std::int32_t stage) const {
  static const std::string kRead = "read";
  return stage == kReadStage ? kRead : maps[static_cast<std::size_t>(stage)].name;
}

std::int32_t Chain::stage_number(const std::string& name) const {
  const auto at = std::find_if(maps.begin(), maps.end(), [&](const ChainMap& map) { return map.name == name; });
  return at == maps.end() ? kReadStage : static_cast<std::int32_t>(at - maps.begin());
}

}  // namespace penstock::engine
