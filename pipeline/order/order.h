// The order of an epoch: which sample of the source stands in which slot, worked out from the plan's shuffle, repeat,
// take, skip and shard stages. Slots are counted, nothing is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/order/permutation.h>
#include <penstock/pipeline/plan.h>

namespace penstock::order {

/// What stands in a slot.
struct Placed {
  std::uint64_t index = 0;    ///< in the source
  std::uint64_t lineage = 0;  ///< hash of (source, index), mixed with the pass of every repeat around it
};

/// Compiled order of one pipeline. Safe for concurrent use.
class Order {
 public:
  /// `seed` is for shuffles that name none. Throws InvalidArgument when an epoch has more samples than can be counted.
  Order(std::uint64_t source_size, std::span<const Stage> stages, std::uint64_t seed);

  /// Slots an epoch.
  std::uint64_t size() const noexcept { return size_; }
  /// Samples an epoch, over all ranks, that UnevenShards::kDrop leaves out.
  std::uint64_t left_out() const noexcept { return left_out_; }
  /// Fills `out` with what stands in slots `slot`, `slot + 1`, ... of `epoch`; all of them < size().
  void fill(std::uint64_t epoch, std::uint64_t slot, std::span<Placed> out) const;
  /// The same without lineages, which are left as they may be.
  void fill_indices(std::uint64_t epoch, std::uint64_t slot, std::span<Placed> out) const;

 private:
  struct Skip {
    std::uint64_t count;
  };
  struct Shard {
    std::uint64_t rank;
    std::uint64_t world;
  };
  struct Repeat {
    std::uint64_t inner;  // slots a pass
  };
  struct Shuffled {
    std::uint64_t key;  // of seed and ordinal
    std::uint64_t inner;
    std::size_t ordinal;
  };
  using Step = std::variant<Skip, Shard, Repeat, Shuffled>;
  struct Kept {
    std::uint64_t key = 0;
    std::shared_ptr<const Permutation> permutation;
  };

  bool place(std::uint64_t epoch, std::uint64_t slot, std::span<Placed> out) const;
  void shuffle(const Shuffled& step, std::uint64_t epoch, bool repeated, std::span<Placed> out) const;
  std::shared_ptr<const Permutation> permutation(const Shuffled& step, std::uint64_t key) const;

  std::vector<Step> steps_;  // from the source outwards; a take only shortens
  std::uint64_t size_;
  std::uint64_t left_out_ = 0;
  std::size_t shuffle_count_ = 0;
  mutable Mutex mutex_;
  mutable std::vector<std::vector<Kept>> kept_ PENSTOCK_GUARDED_BY(mutex_);  // a few permutations of each shuffle
  mutable std::size_t next_kept_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::order
