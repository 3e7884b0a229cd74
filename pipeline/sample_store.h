// Kept samples by key: what `.cache(store)` takes. The part cache implements it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include <penstock/pipeline/sample.h>

namespace penstock {

/// 128 bits that name a sample's value: source identity, every map before the cache with parameters and version,
/// decoder and format versions; not order or selection.
struct SampleKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const SampleKey&, const SampleKey&) = default;
};

/// What `SampleStore::begin` found.
enum class Lookup : std::uint8_t {
  kHit,      ///< `hit` holds the sample
  kPending,  ///< somebody is loading it: `waiter` will be called once when that has ended; then ask again
  kOwner,    ///< the caller loads it, and must call exactly one of commit, fail, abandon
};

/// Keeps samples by key, one load per key at a time. Safe for concurrent use; nothing blocks, no user code runs under a
/// lock. Waiters run on a thread of whoever ended the load, after its lock is released, never from inside `begin`; they
/// must be cheap (they hand work on).
class SampleStore {
 public:
  virtual ~SampleStore() = default;
  /// Called with null: ask again. With an error: the load failed, for everyone who waited.
  using Waiter = std::function<void(std::exception_ptr error)>;
  /// Looks `key` up. `hit` is set only for kHit; `waiter` is kept only for kPending.
  virtual Lookup begin(const SampleKey& key, Sample& hit, Waiter waiter) = 0;
  /// The owner has loaded it; the store may keep the sample or not. Waiters are called with null; the first that asks
  /// again becomes the owner when the sample was not kept.
  virtual void commit(const SampleKey& key, const Sample& sample) = 0;
  /// The owner's load failed: every waiter is called with `error`; nothing is kept, a later `begin` owns the load.
  virtual void fail(const SampleKey& key, std::exception_ptr error) = 0;
  /// The owner gives up without an answer (cancelled, torn down); the first waiter that asks becomes the owner.
  virtual void abandon(const SampleKey& key) = 0;
  /// One line for people: `memory cache, 64 MiB`.
  virtual std::string describe() const = 0;
};

}  // namespace penstock
