// Names of cached values: a hash of the sample's source and of every map before the cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/pipeline/sample_store.h>

namespace penstock::engine {

/// Makes keys for one chain of maps. Safe for concurrent use.
class CacheKeys {
 public:
  CacheKeys() = default;
  /// `identities` of the maps before the cache, in order.
  explicit CacheKeys(const std::vector<std::string>& identities);
  /// XXH3-128 of the format's version, the maps and the source's `fingerprint` of a sample.
  SampleKey key(std::string_view fingerprint) const;

 private:
  std::string prefix_;
};

}  // namespace penstock::engine
