// What a row costs, measured on the blocks that have finished: how large the next blocks should be.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::engine {

/// A moving mean of the thread time of a row. Safe for concurrent use: a lost update does no harm.
class RowCost {
 public:
  using Duration = std::chrono::steady_clock::duration;

  void add(std::size_t rows, Duration spent) noexcept {
    if (rows == 0) return;
    const double now = std::chrono::duration<double>(spent).count() / static_cast<double>(rows);
    const double before = seconds_.load(std::memory_order_relaxed);
    seconds_.store(before == 0 ? now : before + (now - before) * kWeight, std::memory_order_relaxed);
  }
  /// Nothing has been measured yet.
  bool unknown() const noexcept { return seconds_.load(std::memory_order_relaxed) == 0; }
  /// Rows that take about `seconds`; at least 1.
  std::size_t rows_in(double seconds) const noexcept {
    const double rows = seconds / std::max(seconds_.load(std::memory_order_relaxed), kLeast);
    return static_cast<std::size_t>(std::clamp(rows, 1.0, kMostRows));
  }

 private:
  static constexpr double kWeight = 1.0 / 16;
  static constexpr double kLeast = 1e-10;
  static constexpr double kMostRows = 1e9;
  std::atomic<double> seconds_{0};
};

/// Rows of the next block of an epoch with `remaining` rows, in batches of `batch_size`, for `threads` workers. A block
/// is long enough that handing it out costs little beside it, and short enough that the last ones of an epoch, or a few
/// slow rows, spread over the workers.
inline std::size_t block_rows(const RowCost& cost, std::uint64_t remaining, std::size_t batch_size,
                              std::size_t threads) noexcept {
  constexpr double kLong = 100e-6;
  constexpr double kShort = 10e-6;
  const std::uint64_t parts = 4 * static_cast<std::uint64_t>(threads);
  const std::uint64_t share = std::max<std::uint64_t>(1, remaining / parts);
  const std::uint64_t most = cost.unknown() ? std::max<std::uint64_t>(1, batch_size / parts) : cost.rows_in(kLong);
  const std::uint64_t least = cost.unknown() ? 1 : cost.rows_in(kShort);
  return static_cast<std::size_t>(std::min<std::uint64_t>(batch_size, std::min(most, std::max(least, share))));
}

}  // namespace penstock::engine
