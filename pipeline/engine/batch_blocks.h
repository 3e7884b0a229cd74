// Blocks of memory for the batches of a stream, of whatever size each batch has: made when needed and used again.
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

/// Charged to guaranteed shares, of which each holds one block of the largest size for each block it stands for; so a
/// refusal below `capacity()` only means that others have not yet given back what these shares took over. Leases keep
/// it alive. Safe for concurrent use.
class BatchBlocks final : public BatchMemory, public std::enable_shared_from_this<BatchBlocks> {
 public:
  BatchBlocks(std::shared_ptr<BudgetShare> share, std::size_t block_count);

  std::optional<BatchLease> try_acquire(const BatchLayout& layout, std::uint64_t batch_index) override;
  void on_free(std::function<void()> callback) override;
  std::size_t capacity() const override;
  /// True when as many are on loan as there may be: a refusal is then not the budget's.
  bool all_lent() const;
  /// `block_count` blocks more, for which `share` stands.
  void grow(std::shared_ptr<BudgetShare> share, std::size_t block_count);
  /// Gives back what is not on loan.
  void trim();

 private:
  struct Block {
    ChargedMemory owned;
    std::size_t capacity = 0;
  };
  void give_back(Block block);
  std::optional<Block> take(std::size_t bytes) PENSTOCK_REQUIRES(mutex_);
  Charge charge(std::size_t bytes) PENSTOCK_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<BudgetShare>> shares_ PENSTOCK_GUARDED_BY(mutex_);
  std::size_t block_count_ PENSTOCK_GUARDED_BY(mutex_);
  std::size_t lent_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::vector<Block> free_ PENSTOCK_GUARDED_BY(mutex_);
  Mutex callback_mutex_;  // held while the callback runs, so that on_free({}) waits for it
  std::function<void()> callback_ PENSTOCK_GUARDED_BY(callback_mutex_);
};

}  // namespace penstock::engine
