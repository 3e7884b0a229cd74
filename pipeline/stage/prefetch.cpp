// Batches ready ahead of the caller.
#include <penstock/pipeline/pipeline.h>

#include <string>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock {

Pipeline Pipeline::prefetch(std::size_t batches) const {
  if (find_stage<PrefetchStage>(*plan_)) throw InvalidArgument("prefetch: the pipeline has one already");
  if (batches > 65536) {
    throw InvalidArgument("prefetch: " + std::to_string(batches) + " batches; at most 65536 are possible");
  }
  return with(PrefetchStage{batches}, plan_->schemas.back());
}

}  // namespace penstock
