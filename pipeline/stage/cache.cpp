// Keeps samples from epoch to epoch.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

// A sample is kept by what it was read from and the maps over it: it must still be one sample of its source, and have
// one value.
void require_cacheable(const Stage& stage) {
  const auto* const map = std::get_if<MapStage>(&stage);
  const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage);
  if ((map && map->draws) || (stream && (*stream)->random && !(*stream)->keeps_identity)) {
    throw InvalidArgument("cache: after the random stage \"" + stage_name(stage) +
                          "\" every epoch would see the same variant; move it before");
  }
  if ((stream && !(*stream)->keeps_identity) || std::holds_alternative<BatchStage>(stage)) {
    throw InvalidArgument("cache: after " + stage_name(stage) +
                          " an element is no longer one sample of its source, which is what it is kept by; move it "
                          "before");
  }
}

}  // namespace

Pipeline Pipeline::cache(std::shared_ptr<SampleStore> store) const {
  if (!store) throw InvalidArgument("cache: there is no store");
  if (find_stage<CacheStage>(*plan_)) throw InvalidArgument("cache: the pipeline has one already");
  for (const Stage& stage : plan_->stages) require_cacheable(stage);
  return with(CacheStage{std::move(store)}, plan_->schemas.back());
}

}  // namespace penstock
