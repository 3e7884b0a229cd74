// What one stage of a stream has done, for the report.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <penstock/pipeline/report/trace.h>

namespace penstock::engine {

/// Writes a slice of `spent` that ends now, or, where that would lie over the last one of this thread, where that one
/// began. Never throws.
void trace_slice(Trace& trace, std::uint32_t name, std::chrono::nanoseconds spent) noexcept;

/// Safe for concurrent use.
class StageCounter {
 public:
  /// Before anything is counted: every `add` with a time leaves a slice of this name too.
  void trace_into(std::shared_ptr<Trace> trace, const std::string& stage) {
    if (!trace) return;
    trace_name_ = trace->name(stage);
    trace_ = std::move(trace);
  }
  void add(std::uint64_t count, std::chrono::nanoseconds spent, std::uint64_t bytes = 0,
           std::chrono::nanoseconds waited = {}) noexcept {
    count_.fetch_add(count, std::memory_order_relaxed);
    ns_.fetch_add(static_cast<std::uint64_t>(spent.count()), std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    wait_ns_.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
    if (trace_ && spent.count() > 0) trace_slice(*trace_, trace_name_, spent);
  }
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  double seconds() const noexcept { return static_cast<double>(ns_.load(std::memory_order_relaxed)) * 1e-9; }
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  double wait_seconds() const noexcept { return static_cast<double>(wait_ns_.load(std::memory_order_relaxed)) * 1e-9; }

 private:
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> ns_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> wait_ns_{0};
  std::shared_ptr<Trace> trace_;
  std::uint32_t trace_name_ = 0;
};

}  // namespace penstock::engine
