// The block given back last is lent first: its pages are the warmest.
#include <penstock/pipeline/engine/recycled_pool.h>

#include <utility>

namespace penstock::engine {

RecycledPool::RecycledPool(std::shared_ptr<BudgetShare> share, std::size_t block_bytes, std::size_t block_count)
    : share_(std::move(share)),
      block_bytes_(block_bytes),
      first_count_(block_count),
      kept_(block_count),
      block_count_(block_count) {
  blocks_.reserve(block_count);
  free_.reserve(block_count);
  for (std::size_t i = 0; i < block_count; ++i) {
    blocks_.push_back({share_, {}});
    free_.push_back(block_count - 1 - i);
  }
}

std::optional<BatchLease> RecycledPool::try_acquire(const BatchLayout&, std::uint64_t) {
  std::size_t at = 0;
  std::byte* data = nullptr;
  {
    const MutexLock lock(mutex_);
    if (free_.empty()) return std::nullopt;
    at = free_.back();
    Block& block = blocks_[at];
    if (!block.owned.memory) {
      ChargedMemory made{block.share->try_guaranteed(block_bytes_), {}};
      if (!made.charge) return std::nullopt;
      made.memory = make_aligned(block_bytes_);
      block.owned = std::move(made);
      ++made_;
    }
    free_.pop_back();
    block.lent = true;
    data = block.owned.memory.get();
  }
  return BatchLease(data, block_bytes_, [pool = shared_from_this(), at] { pool->give_back(at); });
}

void RecycledPool::give_back(std::size_t at) {
  {
    const MutexLock lock(mutex_);
    Block& block = blocks_[at];
    block.lent = false;
    if (!block.retired) {
      const bool keep = made_ <= kept_;
      free_.insert(keep ? free_.end() : free_.begin(), at);
      if (!keep) release(block);
    } else {
      release(block);
    }
  }
  const MutexLock lock(callback_mutex_);
  if (callback_) callback_();
}

void RecycledPool::release(Block& block) {
  if (block.owned.memory && !block.retired) --made_;
  block.owned = {};
  if (block.retired) block.share = nullptr;
}

void RecycledPool::resize(std::size_t block_count, std::size_t kept,
                          const std::function<std::shared_ptr<BudgetShare>()>& reserve) {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<BudgetShare>> more;
  while (block_count_ + more.size() < block_count) more.push_back(reserve());
  for (std::shared_ptr<BudgetShare>& share : more) {
    free_.insert(free_.begin(), blocks_.size());
    blocks_.push_back({std::move(share), {}});
  }
  block_count_ += more.size();
  for (std::size_t at = blocks_.size(); at > first_count_ && block_count_ > block_count; --at) {
    Block& block = blocks_[at - 1];
    if (block.retired) continue;
    if (block.owned.memory) --made_;
    block.retired = true;
    --block_count_;
    if (block.lent) continue;
    std::erase(free_, at - 1);
    release(block);
  }
  while (blocks_.size() > first_count_ && blocks_.back().retired && !blocks_.back().lent) blocks_.pop_back();
  kept_ = kept;
  for (std::size_t i = 0; i < free_.size() && made_ > kept_; ++i) release(blocks_[free_[i]]);
}

void RecycledPool::on_free(std::function<void()> callback) {
  const MutexLock lock(callback_mutex_);
  callback_ = std::move(callback);
}

std::size_t RecycledPool::capacity() const {
  const MutexLock lock(mutex_);
  return block_count_;
}

bool RecycledPool::all_lent() const {
  const MutexLock lock(mutex_);
  return free_.empty();
}

bool RecycledPool::has_room() const {
  const MutexLock lock(mutex_);
  if (free_.empty()) return false;
  const Block& block = blocks_[free_.back()];
  return block.owned.memory || block.share->has_guaranteed_room(block_bytes_);
}

}  // namespace penstock::engine
