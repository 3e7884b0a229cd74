// A sharded index under one shared budget. Splitting the budget over the shards as well would lose samples long before
// the cache is full, since no hash spreads bytes evenly.
//
// An entry is absent, loading (with the waiters) or kept. Absent -> loading by begin, loading -> kept or absent by the
// owner; kept is final.
#include <penstock/cache/memory_store.h>

#include <atomic>
#include <bit>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/mutex.h>

namespace penstock::cache {
namespace {

// Keys are hashes already, but callers may make up small ones. (Multipliers: SplitMix64.)
std::uint64_t spread(const SampleKey& key) noexcept {
  std::uint64_t mixed = key.low ^ (key.high * 0x9e3779b97f4a7c15);
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

struct KeyHash {
  std::size_t operator()(const SampleKey& key) const noexcept { return spread(key); }
};

using Waiters = std::vector<SampleStore::Waiter>;

struct Entry {
  std::shared_ptr<const Sample> kept;  // null: loading
  Waiters waiters;
};

using Entries = std::unordered_map<SampleKey, Entry, KeyHash>;

struct alignas(64) Shard {
  mutable Mutex mutex;
  Entries entries PENSTOCK_GUARDED_BY(mutex);
  MemoryStatistics counts PENSTOCK_GUARDED_BY(mutex);
};

std::string bytes_text(std::uint64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

class ShardedStore final : public MemoryStore {
 public:
  ShardedStore(std::uint64_t capacity_bytes, std::size_t shards) : capacity_(capacity_bytes), shards_(shards) {}

  Lookup begin(const SampleKey& key, Sample& hit, Waiter waiter) override {
    Shard& shard = shard_of(key);
    std::shared_ptr<const Sample> found;
    {
      const MutexLock lock(shard.mutex);
      const auto [entry, is_new] = shard.entries.try_emplace(key);
      if (is_new) {
        ++shard.counts.misses;
        return Lookup::kOwner;
      }
      if (!entry->second.kept) {
        entry->second.waiters.push_back(std::move(waiter));
        ++shard.counts.waits;
        return Lookup::kPending;
      }
      found = entry->second.kept;
      ++shard.counts.hits;
    }
    hit = *found;
    return Lookup::kHit;
  }

  void commit(const SampleKey& key, const Sample& sample) override {
    auto kept = std::make_shared<const Sample>(sample);
    const std::uint64_t bytes = sample.size_bytes() + kEntryOverheadBytes;
    const bool fits = reserve(bytes);
    Waiters waiters;
    bool loading = false;
    Shard& shard = shard_of(key);
    {
      const MutexLock lock(shard.mutex);
      const auto entry = find_loading(shard, key);
      loading = entry != shard.entries.end();
      if (loading) {
        waiters.swap(entry->second.waiters);
        if (fits) {
          entry->second.kept.swap(kept);
          ++shard.counts.kept;
        } else {
          shard.entries.erase(entry);
          ++shard.counts.refused;
        }
      }
    }
    if (!loading) {
      if (fits) used_.fetch_sub(bytes, std::memory_order_relaxed);
      throw InvalidArgument("memory cache: commit of a key that nobody loads");
    }
    for (const Waiter& waiter : waiters) waiter(nullptr);
  }

  void fail(const SampleKey& key, std::exception_ptr error) override { end_load(key, error, "fail"); }
  void abandon(const SampleKey& key) override { end_load(key, nullptr, "abandon"); }

  std::string describe() const override { return "memory cache, " + bytes_text(capacity_); }
  std::uint64_t capacity_bytes() const noexcept override { return capacity_; }

  MemoryStatistics statistics() const override {
    MemoryStatistics sum;
    for (const Shard& shard : shards_) {
      const MutexLock lock(shard.mutex);
      sum.hits += shard.counts.hits;
      sum.misses += shard.counts.misses;
      sum.waits += shard.counts.waits;
      sum.kept += shard.counts.kept;
      sum.refused += shard.counts.refused;
    }
    sum.bytes = used_.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  Shard& shard_of(const SampleKey& key) noexcept {
    // The high half: the index inside the shard uses the low one.
    return shards_[spread(key) >> 32 & (shards_.size() - 1)];
  }

  // Compare-exchange, not add-then-check: that would refuse what fits while something hopeless is being rolled back.
  bool reserve(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > capacity_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }

  static Entries::iterator find_loading(Shard& shard, const SampleKey& key) PENSTOCK_REQUIRES(shard.mutex) {
    const auto entry = shard.entries.find(key);
    return entry != shard.entries.end() && !entry->second.kept ? entry : shard.entries.end();
  }

  void end_load(const SampleKey& key, const std::exception_ptr& error, const char* what) {
    Shard& shard = shard_of(key);
    Waiters waiters;
    bool loading = false;
    {
      const MutexLock lock(shard.mutex);
      const auto entry = find_loading(shard, key);
      loading = entry != shard.entries.end();
      if (loading) {
        waiters.swap(entry->second.waiters);
        shard.entries.erase(entry);
      }
    }
    if (!loading) throw InvalidArgument("memory cache: " + std::string(what) + " of a key that nobody loads");
    for (const Waiter& waiter : waiters) waiter(error);
  }

  const std::uint64_t capacity_;
  std::vector<Shard> shards_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace

std::shared_ptr<MemoryStore> memory(std::uint64_t capacity_bytes, const MemoryOptions& options) {
  if (options.shards > 65536 || !std::has_single_bit(options.shards)) {
    throw InvalidArgument("memory cache: shards must be a power of two, 1 to 65536, not " +
                          std::to_string(options.shards));
  }
  return std::make_shared<ShardedStore>(capacity_bytes, options.shards);
}

}  // namespace penstock::cache
