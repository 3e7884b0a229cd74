// The sums of metrics, which follow the numbers of the model, are left out.
#include <penstock/trainer/model_hash.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock::trainer {

std::uint64_t model_hash(const ModelLayout& layout, const std::byte* state) {
  return XXH3_64bits(state, layout.train_metrics);
}

}  // namespace penstock::trainer
