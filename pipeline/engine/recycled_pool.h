// The loader's own batch memory: a number of blocks, made when first needed and used again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/mutex.h>

namespace penstock::engine {

/// Blocks charged to the loader's guaranteed share; those that are added later have a share each. Leases keep the pool
/// alive. Safe for concurrent use.
class RecycledPool final : public BatchMemory, public std::enable_shared_from_this<RecycledPool> {
 public:
  /// `block_bytes` is the size of every batch; `share` stands for `block_count` of them.
  RecycledPool(std::shared_ptr<BudgetShare> share, std::size_t block_bytes, std::size_t block_count);

  std::optional<BatchLease> try_acquire(const BatchLayout& layout, std::uint64_t batch_index) override;
  void on_free(std::function<void()> callback) override;
  std::size_t capacity() const override;
  /// True when every block is on loan: a refusal is then not the budget's.
  bool all_lent() const;
  /// Whether the budget would have room for another block at this moment.
  bool has_room() const;
  /// Changes the number of blocks, but never to fewer than at first, and how many are kept when they come back. Those
  /// that are too many go at once, or when they come back. `reserve` gives the share of one more block; what it throws
  /// is thrown, and nothing is changed.
  void resize(std::size_t block_count, std::size_t kept, const std::function<std::shared_ptr<BudgetShare>()>& reserve);

 private:
  struct Block {
    std::shared_ptr<BudgetShare> share;
    ChargedMemory owned;
    bool lent = false;
    bool retired = false;
  };
  void give_back(std::size_t block);
  void release(Block& block) PENSTOCK_REQUIRES(mutex_);

  const std::shared_ptr<BudgetShare> share_;
  const std::size_t block_bytes_;
  const std::size_t first_count_;
  mutable Mutex mutex_;
  std::vector<Block> blocks_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::size_t> free_ PENSTOCK_GUARDED_BY(mutex_);  // not on loan, not retired; those with memory last
  std::size_t made_ PENSTOCK_GUARDED_BY(mutex_) = 0;           // blocks with memory, not retired
  std::size_t kept_ PENSTOCK_GUARDED_BY(mutex_);
  std::size_t block_count_ PENSTOCK_GUARDED_BY(mutex_);  // not retired
  Mutex callback_mutex_;  // held while the callback runs, so that on_free({}) waits for it
  std::function<void()> callback_ PENSTOCK_GUARDED_BY(callback_mutex_);
};

}  // namespace penstock::engine
