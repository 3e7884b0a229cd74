// Functions with state of their own: one instance for each call that runs at the same time.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/pipeline/mutex.h>

namespace penstock {
namespace detail {

/// Instances that nobody uses at the moment; a new one is made when there is none.
template <class T>
class InstancePool {
 public:
  explicit InstancePool(std::function<T()> factory) : factory_(std::move(factory)) {}
  std::unique_ptr<T> take() {
    {
      const MutexLock lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<T> instance = std::move(free_.back());
        free_.pop_back();
        return instance;
      }
    }
    return std::make_unique<T>(factory_());
  }
  void give_back(std::unique_ptr<T> instance) {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(instance));
  }

 private:
  const std::function<T()> factory_;
  Mutex mutex_;
  std::vector<std::unique_ptr<T>> free_ PENSTOCK_GUARDED_BY(mutex_);
};

template <class T, class Signature = decltype(&T::operator())>
class PerWorker;

template <class T, class R, class... A>
class PerWorkerCall {
 public:
  explicit PerWorkerCall(std::function<T()> factory) : pool_(std::make_shared<InstancePool<T>>(std::move(factory))) {}
  R operator()(A... arguments) const {
    const Lease lease(*pool_);
    return (*lease.instance)(std::forward<A>(arguments)...);
  }

 private:
  struct Lease {
    explicit Lease(InstancePool<T>& from) : pool(from), instance(from.take()) {}
    ~Lease() { pool.give_back(std::move(instance)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    InstancePool<T>& pool;
    mutable std::unique_ptr<T> instance;
  };
  std::shared_ptr<InstancePool<T>> pool_;
};

template <class T, class C, class R, class... A>
class PerWorker<T, R (C::*)(A...)> : public PerWorkerCall<T, R, A...> {
  using PerWorkerCall<T, R, A...>::PerWorkerCall;
};
template <class T, class C, class R, class... A>
class PerWorker<T, R (C::*)(A...) const> : public PerWorkerCall<T, R, A...> {
  using PerWorkerCall<T, R, A...>::PerWorkerCall;
};
template <class T, class C, class R, class... A>
class PerWorker<T, R (C::*)(A...) noexcept> : public PerWorkerCall<T, R, A...> {
  using PerWorkerCall<T, R, A...>::PerWorkerCall;
};
template <class T, class C, class R, class... A>
class PerWorker<T, R (C::*)(A...) const noexcept> : public PerWorkerCall<T, R, A...> {
  using PerWorkerCall<T, R, A...>::PerWorkerCall;
};

}  // namespace detail

/// A function for `Pipeline::map` whose instances are never used by two threads at once:
/// `.map("image", output, per_worker([] { return Decoder{}; }))`, where `Decoder` has one `operator()`, which need not
/// be const, with the arguments of any form of map. `factory` may be called from any thread; instances are used again,
/// so results must not depend on what an instance has seen before.
template <std::invocable Factory>
auto per_worker(Factory factory) {
  using T = std::invoke_result_t<Factory>;
  return detail::PerWorker<T>(std::function<T()>(std::move(factory)));
}

}  // namespace penstock
