// Bytes are taken by compare-exchange, never added first and checked after: a hopeless request would refuse others for
// as long as it takes to roll it back.
#include <penstock/pipeline/engine/budget.h>

#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

bool take(std::atomic<std::uint64_t>& free, std::uint64_t bytes) noexcept {
  std::uint64_t seen = free.load(std::memory_order_relaxed);
  do {
    if (bytes > seen) return false;
  } while (!free.compare_exchange_weak(seen, seen - bytes, std::memory_order_relaxed));
  return true;
}

bool add_up_to(std::atomic<std::uint64_t>& used, std::uint64_t bytes, std::uint64_t limit) noexcept {
  std::uint64_t seen = used.load(std::memory_order_relaxed);
  do {
    if (seen > limit || bytes > limit - seen) return false;
  } while (!used.compare_exchange_weak(seen, seen + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace

bool Budget::add_used(std::uint64_t bytes) noexcept {
  std::uint64_t seen = used_.load(std::memory_order_relaxed);
  do {
    if (seen > limit_ || bytes > limit_ - seen) return false;
  } while (!used_.compare_exchange_weak(seen, seen + bytes, std::memory_order_relaxed));
  const std::uint64_t now = seen + bytes;
  std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return true;
}

void Budget::release(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_seq_cst); }

Charge::~Charge() {
  if (!share_) return;
  Budget& budget = *share_->budget_;
  if (shared_) {
    budget.shared_used_.fetch_sub(bytes_, std::memory_order_relaxed);
  } else {
    share_->free_.fetch_add(bytes_, std::memory_order_relaxed);
  }
  budget.release(bytes_);
}

std::shared_ptr<BudgetShare> BudgetShare::reserve(std::shared_ptr<Budget> budget, std::uint64_t bytes,
                                                  const std::string& what) {
  if (!add_up_to(budget->guaranteed_, bytes, budget->limit())) {
    const std::uint64_t others = budget->guaranteed();
    throw InvalidArgument("loader: the budget of " + std::to_string(budget->limit()) +
                          " bytes is too small: this loader needs " + std::to_string(bytes) + " bytes (" + what + ")" +
                          (others > 0 ? ", other loaders have " + std::to_string(others) + " bytes" : std::string()) +
                          "; give the runtime at least " + std::to_string(others + bytes) + " bytes");
  }
  return std::shared_ptr<BudgetShare>(new BudgetShare(std::move(budget), bytes));
}

BudgetShare::~BudgetShare() { budget_->guaranteed_.fetch_sub(bytes_, std::memory_order_relaxed); }

Charge BudgetShare::try_guaranteed(std::uint64_t bytes) {
  if (!take(free_, bytes)) return {};
  if (!budget_->add_used(bytes)) {
    free_.fetch_add(bytes, std::memory_order_relaxed);
    return {};
  }
  return Charge(shared_from_this(), bytes, false);
}

Charge BudgetShare::try_shared(std::uint64_t bytes) {
  const std::uint64_t guaranteed = budget_->guaranteed();
  if (!add_up_to(budget_->shared_used_, bytes, budget_->limit() - guaranteed)) return {};
  if (!budget_->add_used(bytes)) {
    budget_->shared_used_.fetch_sub(bytes, std::memory_order_relaxed);
    return {};
  }
  return Charge(shared_from_this(), bytes, true);
}

bool BudgetShare::has_guaranteed_room(std::uint64_t bytes) const noexcept {
  const std::uint64_t used = budget_->used_.load(std::memory_order_seq_cst);
  return bytes <= budget_->limit() - used && bytes <= free_.load(std::memory_order_seq_cst);
}

bool BudgetShare::has_room(std::uint64_t bytes) const noexcept {
  if (has_guaranteed_room(bytes)) return true;
  const std::uint64_t limit = budget_->limit();
  const std::uint64_t taken = budget_->guaranteed() + budget_->shared_used_.load(std::memory_order_seq_cst);
  return bytes <= limit - budget_->used_.load(std::memory_order_seq_cst) && taken <= limit && bytes <= limit - taken;
}

}  // namespace penstock::engine
