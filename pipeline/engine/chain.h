// The maps of a plan, bound: which body runs on which row, where its values go, and where the cache stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/engine/cache_key.h>
#include <penstock/pipeline/plan.h>

namespace penstock::engine {

/// One bound map.
struct ChainMap {
  std::string name;
  MapBody body;
  bool draws = false;
  std::uint32_t draw_number = 0;  ///< maps that draw before this one
  /// For each field after the map: the field of the batch that this map is the last to write, or -1.
  std::vector<std::int32_t> destinations;
};

/// Immutable once made.
struct Chain {
  /// The plan must have a batch stage.
  explicit Chain(const Plan& plan);

  /// Name of a stage by number; kReadStage is "read".
  const std::string& stage_name(std::int32_t stage) const;
  /// The first map of that name; kReadStage when there is none.
  std::int32_t stage_number(const std::string& name) const;

  BatchLayout layout;
  std::vector<ChainMap> maps;
  std::vector<std::int32_t> source_destinations;  ///< as ChainMap::destinations, for fields that no map writes
  std::size_t source_fields = 0;
  std::vector<DataType> source_types;
  std::vector<std::int32_t> final_fields;  ///< map that wrote each field of the batch last, or kReadStage

  std::shared_ptr<SampleStore> store;  ///< null: no cache
  std::size_t cache_at = 0;            ///< maps before the cache
  Schema cached;                       ///< fields there
  CacheKeys keys;
};

}  // namespace penstock::engine
