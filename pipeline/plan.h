// The plan behind a Pipeline: a source and a list of stages, as plain data that the engine reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/sample_store.h>
#include <penstock/pipeline/source.h>

namespace penstock {

/// What becomes of the rows at the end of an epoch that do not fill a batch.
enum class LastBatch : std::uint8_t {
  kKeep,    ///< a short last batch
  kDrop,    ///< left out, and counted
  kRefuse,  ///< refused when the pipeline is built, unless the size divides
};

/// Order of a shuffle: an exact permutation of all samples, another one in each epoch.
struct Shuffle {
  std::optional<std::uint64_t> seed;  ///< default: the loader's seed
};

/// Stages of a plan as `Pipeline` describes them; those that are more than their name say so.
struct ShuffleStage {
  Shuffle options;
};
struct RepeatStage {
  std::uint64_t count;
};
struct TakeStage {
  std::uint64_t count;
};
struct SkipStage {
  std::uint64_t count;
};
/// Slot p of the order so far goes to rank p mod world.
struct ShardStage {
  std::uint64_t rank;
  std::uint64_t world;
};
struct CacheStage {
  std::shared_ptr<SampleStore> store;
};
struct BatchStage {
  std::size_t size;
  LastBatch last;
};
/// Batches kept ready beyond the one in the caller's hands.
struct PrefetchStage {
  std::size_t batches;
};

/// Any stage of a plan.
using Stage = std::variant<MapStage, ShuffleStage, RepeatStage, TakeStage, SkipStage, ShardStage, CacheStage,
                           BatchStage, PrefetchStage>;

/// Immutable once built. `schemas[i]` is the schema before stage i; the last one is that of the whole plan's samples.
struct Plan {
  std::shared_ptr<const Source> source;
  std::vector<Stage> stages;
  std::vector<Schema> schemas;
};

/// The first stage of type `T` (`BatchStage`, ...); null when there is none.
template <class T>
const T* find_stage(const Plan& plan) noexcept {
  for (const Stage& stage : plan.stages) {
    if (const auto* const found = std::get_if<T>(&stage)) return found;
  }
  return nullptr;
}

}  // namespace penstock
