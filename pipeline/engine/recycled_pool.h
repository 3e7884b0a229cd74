// The loader's own batch memory: a fixed number of blocks, made when first needed and used again and again.
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

/// Blocks charged to the loader's guaranteed share. Leases keep the pool alive. Safe for concurrent use.
class RecycledPool final : public BatchMemory, public std::enable_shared_from_this<RecycledPool> {
 public:
  /// `block_bytes` is the size of every batch.
  RecycledPool(std::shared_ptr<BudgetShare> share, std::size_t block_bytes, std::size_t block_count);

  std::optional<BatchLease> try_acquire(const BatchLayout& layout, std::uint64_t batch_index) override;
  void on_free(std::function<void()> callback) override;
  std::size_t capacity() const override { return block_count_; }
  /// True when every block is on loan: a refusal is then not the budget's.
  bool all_lent() const;

 private:
  void give_back(std::size_t block);

  const std::shared_ptr<BudgetShare> share_;
  const std::size_t block_bytes_;
  const std::size_t block_count_;
  mutable Mutex mutex_;
  std::vector<ChargedMemory> blocks_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::size_t> free_ PENSTOCK_GUARDED_BY(mutex_);
  Mutex callback_mutex_;  // held while the callback runs, so that on_free({}) waits for it
  std::function<void()> callback_ PENSTOCK_GUARDED_BY(callback_mutex_);
};

}  // namespace penstock::engine
