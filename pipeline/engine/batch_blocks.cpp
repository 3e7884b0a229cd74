// A free block serves again when it is large enough and not wastefully large; of batches of one size it always is.
#include <penstock/pipeline/engine/batch_blocks.h>

#include <utility>

namespace penstock::engine {
namespace {

// Larger than this many times what is asked, a free block is given back instead of used.
constexpr std::size_t kWaste = 2;

}  // namespace

BatchBlocks::BatchBlocks(std::shared_ptr<BudgetShare> share, std::size_t block_count) : block_count_(block_count) {
  shares_.push_back(std::move(share));
}

Charge BatchBlocks::charge(std::size_t bytes) {
  for (const std::shared_ptr<BudgetShare>& share : shares_) {
    if (Charge charge = share->try_guaranteed(bytes)) return charge;
  }
  return {};
}

std::optional<BatchBlocks::Block> BatchBlocks::take(std::size_t bytes) {
  for (std::size_t i = free_.size(); i > 0; --i) {
    const std::size_t capacity = free_[i - 1].capacity;
    if (capacity < bytes || capacity / kWaste > bytes) continue;
    Block block = std::move(free_[i - 1]);
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    return block;
  }
  // Blocks that are free and do not fit hold bytes that this one may need.
  if (lent_ + free_.size() >= block_count_ && !free_.empty()) free_.erase(free_.begin());
  Block block{{charge(bytes), {}}, bytes};
  if (!block.owned.charge) {
    free_.clear();
    block.owned.charge = charge(bytes);
  }
  if (!block.owned.charge) return std::nullopt;
  block.owned.memory = make_aligned(bytes);
  return block;
}

std::optional<BatchLease> BatchBlocks::try_acquire(const BatchLayout& layout, std::uint64_t) {
  std::shared_ptr<Block> lent;
  {
    const MutexLock lock(mutex_);
    if (lent_ >= block_count_) return std::nullopt;
    std::optional<Block> block = take(layout.size_bytes);
    if (!block) return std::nullopt;
    lent = std::make_shared<Block>(std::move(*block));
    ++lent_;
  }
  std::byte* const data = lent->owned.memory.get();
  return BatchLease(data, layout.size_bytes,
                    [blocks = shared_from_this(), lent = std::move(lent)] { blocks->give_back(std::move(*lent)); });
}

void BatchBlocks::give_back(Block block) {
  {
    const MutexLock lock(mutex_);
    --lent_;
    free_.push_back(std::move(block));
  }
  const MutexLock lock(callback_mutex_);
  if (callback_) callback_();
}

void BatchBlocks::on_free(std::function<void()> callback) {
  const MutexLock lock(callback_mutex_);
  callback_ = std::move(callback);
}

std::size_t BatchBlocks::capacity() const {
  const MutexLock lock(mutex_);
  return block_count_;
}

bool BatchBlocks::all_lent() const {
  const MutexLock lock(mutex_);
  return lent_ >= block_count_;
}

void BatchBlocks::grow(std::shared_ptr<BudgetShare> share, std::size_t block_count) {
  const MutexLock lock(mutex_);
  shares_.push_back(std::move(share));
  block_count_ += block_count;
}

void BatchBlocks::trim() {
  std::vector<Block> unused;
  const MutexLock lock(mutex_);
  unused.swap(free_);
}

}  // namespace penstock::engine
