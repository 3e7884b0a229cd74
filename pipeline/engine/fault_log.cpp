// Counts go on when the list is full.
#include <penstock/pipeline/engine/fault_log.h>

#include <string>

namespace penstock::engine {

void FaultLog::add(const SampleFault& fault) {
  const MutexLock lock(mutex_);
  add_locked(fault);
}

void FaultLog::add(const std::vector<SampleFault>& faults) {
  const MutexLock lock(mutex_);
  for (const SampleFault& fault : faults) add_locked(fault);
}

void FaultLog::add_locked(const SampleFault& fault) {
  ++(fault.replacement ? replaced_ : skipped_);
  if (faults_.size() < kKept) faults_.push_back(fault);
}

std::vector<SampleFault> FaultLog::get() const {
  const MutexLock lock(mutex_);
  return faults_;
}

std::uint64_t FaultLog::skipped() const {
  const MutexLock lock(mutex_);
  return skipped_;
}

std::uint64_t FaultLog::replaced() const {
  const MutexLock lock(mutex_);
  return replaced_;
}

std::exception_ptr error_limit_reached(std::uint64_t limit, const std::exception_ptr& sample_error) {
  std::string last;
  try {
    std::rethrow_exception(sample_error);
  } catch (const std::exception& error) {
    last = error.what();
    // Made here, where the SampleError is being handled: that is what it nests.
    return std::make_exception_ptr(ErrorLimitReached("on_error: " + std::to_string(limit) +
                                                     " failed samples are allowed, and one more failed; " + last));
  }
}

}  // namespace penstock::engine
