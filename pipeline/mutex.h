// std::mutex with the annotations that clang's thread safety analysis reads (-Wthread-safety).
#pragma once

#include <mutex>

#if defined(__clang__)
#define PENSTOCK_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define PENSTOCK_THREAD_ATTRIBUTE(x)
#endif

/// On a field: it is touched only with `mutex` held.
#define PENSTOCK_GUARDED_BY(mutex) PENSTOCK_THREAD_ATTRIBUTE(guarded_by(mutex))
/// On a function: its caller holds `mutex`.
#define PENSTOCK_REQUIRES(mutex) PENSTOCK_THREAD_ATTRIBUTE(requires_capability(mutex))

namespace penstock {

/// A mutex. Lock it through MutexLock.
class PENSTOCK_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() PENSTOCK_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() PENSTOCK_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex from here to the end of the scope.
class PENSTOCK_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PENSTOCK_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() PENSTOCK_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace penstock
