// Rows of a field are dense, so a field of a batch is one run of bytes.
#include <penstock/pipeline/report/batch_hash.h>

#include <array>
#include <cstdio>
#include <new>

#include <xxhash.h>

namespace penstock {

struct BatchHash::State {
  XXH3_state_t* hash = XXH3_createState();
  State() {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

BatchHash::BatchHash() : state_(std::make_unique<State>()) {}
BatchHash::~BatchHash() = default;
BatchHash::BatchHash(BatchHash&&) noexcept = default;
BatchHash& BatchHash::operator=(BatchHash&&) noexcept = default;

void BatchHash::add(const Batch& batch) {
  const BatchLayout& layout = batch.layout();
  for (std::size_t f = 0; f < layout.fields.size(); ++f) {
    XXH3_64bits_update(state_->hash, batch.field_data(f), batch.size() * layout.fields[f].row_bytes);
  }
}

std::uint64_t BatchHash::value() const { return XXH3_64bits_digest(state_->hash); }
std::string BatchHash::text() const { return hash_text(value()); }

std::uint64_t hash_bytes(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

std::string hash_text(std::uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace penstock
