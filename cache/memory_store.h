// Kept samples in memory: the tier that makes the second epoch faster than the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/pipeline/sample_store.h>

namespace penstock::cache {

/// How a memory store is built. Changes speed, never results.
struct MemoryOptions {
  /// Parts of the index, each with a lock of its own: a power of two, 1 to 65536. More help only where many more
  /// threads than this look up at once; the budget is one, whatever their number.
  std::size_t shards = 16;
};

/// Counts since the store was made. Taken shard by shard, so while others work they may be a few calls apart.
struct MemoryStatistics {
  std::uint64_t hits = 0;     ///< `begin` found the sample
  std::uint64_t misses = 0;   ///< `begin` made the caller the owner of the load
  std::uint64_t waits = 0;    ///< `begin` found a load under way
  std::uint64_t kept = 0;     ///< samples kept
  std::uint64_t refused = 0;  ///< samples committed that did not fit
  std::uint64_t bytes = 0;    ///< of the kept samples, never above the capacity
};

/// A SampleStore that keeps what got in: nothing is ever evicted, and a sample that does not fit into what is left is
/// not kept. With a shuffled order every sample is as likely as any other to be asked for next, and no rule of eviction
/// does better: capacity / N of the lookups hit from the second epoch on. (LRU does far worse, and in a fixed order
/// hits nothing once the set is larger than the cache.)
///
/// A sample counts as the bytes of its tensors and kEntryOverheadBytes. The tensors are shared, not copied: what is
/// committed must own memory of its own size, not be a window into something larger, or more is held than is counted.
class MemoryStore : public SampleStore {
 public:
  /// What an entry costs besides its tensors' bytes: index node, names, shapes, reference counts, for up to three
  /// fields.
  static constexpr std::uint64_t kEntryOverheadBytes = 768;

  virtual std::uint64_t capacity_bytes() const noexcept = 0;
  virtual MemoryStatistics statistics() const = 0;
};

/// Makes a store of `capacity_bytes`; 0 keeps nothing, but still lets only one load of a key run at a time. Throws
/// InvalidArgument for a number of shards that is not allowed. `commit`, `fail` and `abandon` throw InvalidArgument for
/// a key that nobody loads.
std::shared_ptr<MemoryStore> memory(std::uint64_t capacity_bytes, const MemoryOptions& options = {});

}  // namespace penstock::cache
