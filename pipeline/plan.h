// The plan behind a Pipeline: a source and a list of stages, as plain data that the engine reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <penstock/pipeline/error_policy.h>
#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/sample_store.h>
#include <penstock/pipeline/source.h>
#include <penstock/pipeline/stream_stage.h>

namespace penstock {

/// What becomes of the rows at the end of an epoch that do not fill a batch.
enum class LastBatch : std::uint8_t {
  kKeep,    ///< a short last batch
  kDrop,    ///< left out, and counted
  kPad,     ///< a full last batch: `Batch::size()` rows are valid, the rest is zero
  kRefuse,  ///< refused when the pipeline is built, unless the size divides
};

/// Order of a shuffle: an exact permutation of all samples, another one in each epoch. Of a stream (a source without a
/// size, or after a stage that changes how many samples there are): within windows of `buffer` samples, whose borders
/// move from epoch to epoch.
struct Shuffle {
  std::optional<std::uint64_t> seed = {};  ///< default: the loader's seed
  std::uint64_t buffer = 0;                ///< samples in a window; must be given for a stream, and only there
};

/// What `shard` does when the ranks' parts are not equally long.
enum class UnevenShards : std::uint8_t {
  kKeep,  ///< every sample once over all ranks; the first ranks have one more
  kDrop,  ///< equally long parts; fewer than `world` samples are left out, and counted
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
  UnevenShards uneven = UnevenShards::kKeep;
};
struct CacheStage {
  std::shared_ptr<SampleStore> store;
};
struct BatchStage {
  std::size_t size;
  LastBatch last;
};
/// After `batch`: batches kept ready beyond the one in the caller's hands. Before: no more than a hint.
struct PrefetchStage {
  std::size_t batches;
};

/// Any stage of a plan.
using Stage = std::variant<MapStage, ShuffleStage, RepeatStage, TakeStage, SkipStage, ShardStage, CacheStage,
                           BatchStage, PrefetchStage, std::shared_ptr<const StreamStage>>;

/// Immutable once built. `schemas[i]` is the schema before stage i; the last one is that of the whole plan's elements:
/// after a batch stage their fields have the leading dimension.
struct Plan {
  std::shared_ptr<const Source> source;             ///< null: the first stage is a StreamStage over `inputs`
  std::vector<std::shared_ptr<const Plan>> inputs;  ///< of a first stage that joins; none for one that generates
  std::vector<Stage> stages;
  std::vector<Schema> schemas;
  ErrorPolicy errors;
  int batch_depth = 0;  ///< how many batch stages the elements are under
  Schema row_schema;    ///< of the last schema without the leading dimensions of batches: one sample's
};

/// Name of a stage: `map(x)`, `shuffle`, ...
std::string stage_name(const Stage& stage);
/// Whether the plan's rows can be placed by arithmetic: one source that knows its size; shuffle (without a buffer),
/// repeat, take, skip, shard, maps that drop nothing, at most one cache; then one batch of known shapes with nothing
/// but prefetch after it; and a policy other than skip. Such plans run in place and resume in no time.
bool is_flat(const Plan& plan);
/// Elements an epoch; nothing when it depends on the samples.
std::optional<std::uint64_t> element_count(const Plan& plan);

/// The first stage of type `T` (`BatchStage`, ...); null when there is none.
template <class T>
const T* find_stage(const Plan& plan) noexcept {
  for (const Stage& stage : plan.stages) {
    if (const auto* const found = std::get_if<T>(&stage)) return found;
  }
  return nullptr;
}

}  // namespace penstock
