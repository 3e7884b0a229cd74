// The runtime's byte budget: every loader has a guaranteed share, and only what is over is shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace penstock::engine {

/// Bytes in flight over all loaders. A charge is a promise: current() never exceeds limit(). Safe for concurrent use;
/// nothing blocks.
class Budget {
 public:
  explicit Budget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  std::uint64_t limit() const noexcept { return limit_; }
  std::uint64_t current() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  /// Sum of the guaranteed shares.
  std::uint64_t guaranteed() const noexcept { return guaranteed_.load(std::memory_order_relaxed); }

 private:
  friend class BudgetShare;
  friend class Charge;
  bool add_used(std::uint64_t bytes) noexcept;
  void release(std::uint64_t bytes) noexcept;

  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<std::uint64_t> guaranteed_{0};
  std::atomic<std::uint64_t> shared_used_{0};
};

class BudgetShare;

/// Bytes charged; gives them back when it goes out of scope. Moved-from is empty.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept { swap(other); }
  Charge& operator=(Charge&& other) noexcept {
    Charge(std::move(other)).swap(*this);
    return *this;
  }
  ~Charge();
  std::uint64_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return share_ != nullptr; }

 private:
  friend class BudgetShare;
  Charge(std::shared_ptr<BudgetShare> share, std::uint64_t bytes, bool shared)
      : share_(std::move(share)), bytes_(bytes), shared_(shared) {}
  void swap(Charge& other) noexcept {
    share_.swap(other.share_);
    std::swap(bytes_, other.bytes_);
    std::swap(shared_, other.shared_);
  }
  std::shared_ptr<BudgetShare> share_;
  std::uint64_t bytes_ = 0;
  bool shared_ = false;
};

/// One loader's part of the budget. It ends when the loader and every charge are gone.
class BudgetShare : public std::enable_shared_from_this<BudgetShare> {
 public:
  /// Guarantees `bytes`. Throws InvalidArgument, with the sums, when the shares would exceed the budget; `what` says
  /// what the bytes are for.
  static std::shared_ptr<BudgetShare> reserve(std::shared_ptr<Budget> budget, std::uint64_t bytes,
                                              const std::string& what);
  ~BudgetShare();

  /// A charge against the guaranteed bytes. Empty when they are used up; also, for a while, when others still hold
  /// shared bytes that this share has taken over when it was made.
  Charge try_guaranteed(std::uint64_t bytes);
  /// A charge against what is over the guaranteed shares of all loaders. Empty when there is not enough.
  Charge try_shared(std::uint64_t bytes);
  /// Whether `try_guaranteed`, or one of the two, would be granted at this moment.
  bool has_guaranteed_room(std::uint64_t bytes) const noexcept;
  bool has_room(std::uint64_t bytes) const noexcept;

 private:
  friend class Charge;
  BudgetShare(std::shared_ptr<Budget> budget, std::uint64_t bytes)
      : budget_(std::move(budget)), bytes_(bytes), free_(bytes) {}
  const std::shared_ptr<Budget> budget_;
  const std::uint64_t bytes_;
  std::atomic<std::uint64_t> free_;
};

}  // namespace penstock::engine
