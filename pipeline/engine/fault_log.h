// The record of samples that were skipped or replaced, in the order of delivery, and the limit on how many there may
// be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include <penstock/pipeline/error_policy.h>
#include <penstock/pipeline/mutex.h>

namespace penstock::engine {

/// Safe for concurrent use.
class FaultLog {
 public:
  /// The most that are kept; what comes later is only counted.
  static constexpr std::size_t kKept = 100'000;

  void add(const SampleFault& fault);
  void add(const std::vector<SampleFault>& faults);
  std::vector<SampleFault> get() const;
  std::uint64_t skipped() const;
  std::uint64_t replaced() const;

 private:
  void add_locked(const SampleFault& fault) PENSTOCK_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<SampleFault> faults_ PENSTOCK_GUARDED_BY(mutex_);
  std::uint64_t skipped_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::uint64_t replaced_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

/// ErrorLimitReached for the failure that came after `limit` others; `sample_error` is nested.
std::exception_ptr error_limit_reached(std::uint64_t limit, const std::exception_ptr& sample_error);

}  // namespace penstock::engine
