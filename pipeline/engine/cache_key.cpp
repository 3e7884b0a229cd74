// Every part is written with its length before it, so that no two lists of parts give the same text.
#include <penstock/pipeline/engine/cache_key.h>

#include <xxhash.h>

namespace penstock::engine {
namespace {

// Changes whenever an old key would name another value: how keys are made, or arithmetic in the engine.
constexpr std::string_view kVersion = "penstock sample key 1";

void append(std::string& text, std::string_view part) {
  text += std::to_string(part.size());
  text += ':';
  text += part;
}

}  // namespace

CacheKeys::CacheKeys(const std::vector<std::string>& identities) {
  append(prefix_, kVersion);
  append(prefix_, std::to_string(identities.size()));
  for (const std::string& identity : identities) append(prefix_, identity);
}

SampleKey CacheKeys::key(std::string_view fingerprint) const {
  std::string text = prefix_;
  append(text, fingerprint);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

}  // namespace penstock::engine
