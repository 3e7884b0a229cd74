// Thread time spent in each stage. Reading a clock costs as much as a small map, so cheap rows are measured by sample.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/pipeline/mutex.h>

namespace penstock::engine {

/// Sums over all blocks of a loader: "read", then the maps. Safe for concurrent use.
class StageTotals {
 public:
  struct Total {
    std::uint64_t count = 0;
    double seconds = 0;
    std::uint64_t bytes = 0;
    double wait_seconds = 0;
  };
  explicit StageTotals(std::size_t stage_count) : totals_(stage_count) {}
  void add(const std::vector<Total>& block) {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < block.size(); ++i) {
      totals_[i].count += block[i].count;
      totals_[i].seconds += block[i].seconds;
      totals_[i].bytes += block[i].bytes;
      totals_[i].wait_seconds += block[i].wait_seconds;
    }
  }
  std::vector<Total> get() const {
    const MutexLock lock(mutex_);
    return totals_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Total> totals_ PENSTOCK_GUARDED_BY(mutex_);
};

/// Measures the maps of one block. Rows that take less than kCheapRow are measured one in kStride, and the sum scaled.
class StageClock {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StageClock(std::size_t map_count) : maps_(map_count) {}

  void begin_row() {
    measuring_ = (rows_ & (stride_ - 1)) == 0;
    ++rows_;
    if (!measuring_) return;
    ++measured_;
    row_begin_ = last_ = Clock::now();
  }
  /// Map `map` has ended, and has written `bytes`.
  void lap(std::size_t map, std::uint64_t bytes) {
    ++maps_[map].count;
    maps_[map].bytes += bytes;
    if (!measuring_) return;
    const Clock::time_point now = Clock::now();
    maps_[map].elapsed += now - last_;
    last_ = now;
  }
  void end_row() {
    if (measuring_) stride_ = last_ - row_begin_ < kCheapRow ? kStride : 1;
  }
  /// Adds the figures of the maps to `totals`, whose element 0 is "read".
  void add_to(std::vector<StageTotals::Total>& totals) const {
    const double scale = measured_ == 0 ? 0 : static_cast<double>(rows_) / static_cast<double>(measured_);
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      totals[i + 1].count += maps_[i].count;
      totals[i + 1].bytes += maps_[i].bytes;
      totals[i + 1].seconds += std::chrono::duration<double>(maps_[i].elapsed).count() * scale;
    }
  }

 private:
  static constexpr Clock::duration kCheapRow = std::chrono::microseconds(20);
  static constexpr std::uint64_t kStride = 64;
  struct Map {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    Clock::duration elapsed{0};
  };
  std::vector<Map> maps_;
  std::uint64_t rows_ = 0;
  std::uint64_t measured_ = 0;
  std::uint64_t stride_ = 1;
  bool measuring_ = false;
  Clock::time_point row_begin_;
  Clock::time_point last_;
};

}  // namespace penstock::engine
