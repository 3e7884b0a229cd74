// The last map that writes a field is found by name from the end; its value goes to the result at once.
#include <penstock/pipeline/engine/rows_program.h>

#include <algorithm>
#include <utility>

#include <penstock/pipeline/engine/aligned_memory.h>

namespace penstock::engine {
namespace {

bool writes(const MapStage& map, const std::string& field) {
  return std::any_of(map.writes.begin(), map.writes.end(),
                     [&](const std::string& name) { return name == "*" || name == field; });
}

}  // namespace

RowsProgram::RowsProgram(StreamContext& context, std::span<const BoundStage> stages, const Schema& input_fields,
                         std::vector<std::string> identities, std::string expected_text)
    : input(input_fields), output(input_fields), expected(std::move(expected_text)) {
  std::vector<const MapStage*> bound;
  std::vector<const Schema*> outputs;
  for (const BoundStage& at : stages) {
    if (const auto* const map = std::get_if<MapStage>(at.stage)) {
      maps.push_back({map->name,
                      map->bind(*at.before),
                      map->draws,
                      map->draws ? context.draw_count++ : 0,
                      &context.counter(map->name),
                      {},
                      std::vector<std::int32_t>(at.after->size(), -1)});
      for (std::size_t f = 0; f < at.after->size(); ++f) {
        if (writes(*map, (*at.after)[f].name)) maps.back().written.push_back(static_cast<std::uint32_t>(f));
      }
      bound.push_back(map);
      outputs.push_back(at.after);
      output = *at.after;
      if (!store && !map->drops) identities.push_back(map->identity);
    } else if (const auto* const cache = std::get_if<CacheStage>(at.stage)) {
      store = cache->store;
      cache_at = maps.size();
      cached = *at.before;
    }
  }
  keys = CacheKeys(identities);

  input_destinations.assign(input.size(), -1);
  for (const Field& field : output.fields()) {
    names.push_back(field.name);
    in_place = in_place && field.shape.known();
  }
  for (std::size_t f = 0; f < output.size(); ++f) {
    const std::string& name = output[f].name;
    std::size_t m = bound.size();
    while (m > 0 && !writes(*bound[m - 1], name)) --m;
    final_maps.push_back(static_cast<std::int32_t>(m) - 1);
    if (!in_place) continue;
    const Schema& schema = m > 0 ? *outputs[m - 1] : input;
    std::vector<std::int32_t>& destinations = m > 0 ? maps[m - 1].destinations : input_destinations;
    for (std::size_t at = 0; at < schema.size(); ++at) {
      if (schema[at].name == name) destinations[at] = static_cast<std::int32_t>(f);
    }
    const std::size_t bytes = static_cast<std::size_t>(output[f].shape.element_count()) * byte_size(output[f].type);
    offsets.push_back(block_bytes);
    block_bytes += aligned(bytes);
    result_bytes += bytes;
  }
  writes_in_place.assign(maps.size() + 1, false);
  for (std::size_t m = maps.size(); m-- > 0;) {
    writes_in_place[m] = writes_in_place[m + 1] || std::any_of(maps[m].destinations.begin(), maps[m].destinations.end(),
                                                               [](std::int32_t place) { return place >= 0; });
  }
}

const std::string& RowsProgram::stage_name(std::int32_t stage) const {
  static const std::string kRead = "read";
  return stage < 0 ? kRead : maps[static_cast<std::size_t>(stage)].name;
}

std::int32_t RowsProgram::stage_number(const std::string& name) const {
  const auto at = std::find_if(maps.begin(), maps.end(), [&](const RowsMap& map) { return map.name == name; });
  return at == maps.end() ? -1 : static_cast<std::int32_t>(at - maps.begin());
}

}  // namespace penstock::engine
