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

/// One map of a chain that runs by columns.
struct ColumnStep {
  ColumnMap map;
  std::int32_t destination = -1;  ///< field of the batch that its values go to for good, or -1: to scratch
  std::size_t set = 0;            ///< of the field's two sets of scratch: never the one that the values lie in before
};

/// A field of a source that lies in memory.
struct SourceColumn {
  const std::byte* data = nullptr;
  std::size_t row_bytes = 0;
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

  /// Whether rows need not be looked at one by one: the source lies in memory, every map knows how to run over columns,
  /// and values that do not go to the batch are small. `columns` and `steps` are empty otherwise.
  bool by_columns = false;
  std::vector<SourceColumn> columns;
  std::vector<ColumnStep> steps;
  static constexpr std::size_t kMostColumnScratch = 8;  ///< bytes of a value on its way
  std::size_t column_scratch = 0;                       ///< bytes a row that are held on the way

  std::shared_ptr<SampleStore> store;  ///< null: no cache
  std::size_t cache_at = 0;            ///< maps before the cache
  Schema cached;                       ///< fields there
  CacheKeys keys;

 private:
  void set_up_columns(const Plan& plan);
};

}  // namespace penstock::engine
