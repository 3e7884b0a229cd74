// Which memory a device has handed out: the ranges, and whether an access lies inside one of them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace penstock::gpu {

/// Ranges of memory that do not overlap. Safe for concurrent use; looking up is shared.
class AddressRanges {
 public:
  void add(const void* begin, std::uint64_t bytes) {
    const std::unique_lock lock(mutex_);
    ranges_.emplace(reinterpret_cast<std::uintptr_t>(begin), bytes);
  }
  /// Bytes of the range that began at `begin`; 0 when there is none.
  std::uint64_t remove(const void* begin) {
    const std::unique_lock lock(mutex_);
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(begin));
    if (found == ranges_.end()) return 0;
    const std::uint64_t bytes = found->second;
    ranges_.erase(found);
    return bytes;
  }
  /// True when all of `[begin, begin + bytes)` lies in one range.
  bool contains(const void* begin, std::uint64_t bytes) const {
    const std::shared_lock lock(mutex_);
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    --after;
    const std::uint64_t offset = address - after->first;
    return offset <= after->second && bytes <= after->second - offset;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> ranges_;  // guarded by mutex_: begin -> bytes
};

}  // namespace penstock::gpu
