// The maps and the cache of a RowsOperator, bound: which body runs on which fields, and where values go for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline/engine/cache_key.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/plan.h>

namespace penstock::engine {

/// A stage with the fields before and after it.
struct BoundStage {
  const Stage* stage;
  const Schema* before;
  const Schema* after;
};

/// One bound map.
struct RowsMap {
  std::string name;
  MapBody body;
  bool draws = false;
  std::uint32_t draw_number = 0;  ///< maps of the whole plan that draw before this one
  StageCounter* counter = nullptr;
  std::vector<std::uint32_t> written;  ///< fields after the map that it writes
  /// For each field after the map: the field of the result that this map is the last to write, or -1.
  std::vector<std::int32_t> destinations;
};

/// Immutable once made. Where all shapes of the result are known, each field that a map or the source writes has a
/// place in one block of memory, as it has in a batch: so what a sample needs on its way is counted alike everywhere.
struct RowsProgram {
  /// `stages` are maps and at most one cache (others are passed over), `input` the fields before them.
  /// `identities` of the maps that the samples have passed already. `expected`: how messages introduce a field's type.
  RowsProgram(StreamContext& context, std::span<const BoundStage> stages, const Schema& input,
              std::vector<std::string> identities, std::string expected);

  /// Name of a map by number, "read" for -1; and the number of the first map of that name, -1 when there is none.
  const std::string& stage_name(std::int32_t stage) const;
  std::int32_t stage_number(const std::string& name) const;

  Schema input;
  Schema output;
  std::vector<std::string> names;  ///< of the output's fields
  std::string expected;
  std::vector<RowsMap> maps;
  std::vector<std::int32_t> input_destinations;  ///< as RowsMap::destinations, for fields that no map writes
  std::vector<std::int32_t> final_maps;          ///< map that wrote each field of the result last, or -1

  bool in_place = true;               ///< all shapes of the result are known
  std::vector<std::size_t> offsets;   ///< of the fields in the block; in_place only
  std::size_t block_bytes = 0;        ///< of the block
  std::uint64_t result_bytes = 0;     ///< of the fields, which is what is charged
  std::vector<bool> writes_in_place;  ///< for each map: it, or one after it, writes to a place

  std::shared_ptr<SampleStore> store;  ///< null: no cache
  std::size_t cache_at = 0;            ///< maps before the cache
  Schema cached;                       ///< fields there
  CacheKeys keys;
};

}  // namespace penstock::engine
