// The block given back last is lent first: its pages are the warmest.
#include <penstock/pipeline/engine/recycled_pool.h>

#include <utility>

namespace penstock::engine {

RecycledPool::RecycledPool(std::shared_ptr<BudgetShare> share, std::size_t block_bytes, std::size_t block_count)
    : share_(std::move(share)), block_bytes_(block_bytes), block_count_(block_count) {
  blocks_.reserve(block_count);
  free_.reserve(block_count);
}

std::optional<BatchLease> RecycledPool::try_acquire(const BatchLayout&, std::uint64_t) {
  std::size_t block = 0;
  std::byte* data = nullptr;
  {
    const MutexLock lock(mutex_);
    if (free_.empty()) {
      if (blocks_.size() == block_count_) return std::nullopt;
      ChargedMemory made{share_->try_guaranteed(block_bytes_), {}};
      if (!made.charge) return std::nullopt;
      made.memory = make_aligned(block_bytes_);
      free_.push_back(blocks_.size());
      blocks_.push_back(std::move(made));
    }
    block = free_.back();
    free_.pop_back();
    data = blocks_[block].memory.get();
  }
  return BatchLease(data, block_bytes_, [pool = shared_from_this(), block] { pool->give_back(block); });
}

void RecycledPool::give_back(std::size_t block) {
  {
    const MutexLock lock(mutex_);
    free_.push_back(block);
  }
  const MutexLock lock(callback_mutex_);
  if (callback_) callback_();
}

void RecycledPool::on_free(std::function<void()> callback) {
  const MutexLock lock(callback_mutex_);
  callback_ = std::move(callback);
}

bool RecycledPool::all_lent() const {
  const MutexLock lock(mutex_);
  return free_.empty() && blocks_.size() == block_count_;
}

}  // namespace penstock::engine
