// Rows in one block of memory. The last batch stage of a plan is filled by the engine; one with stages after it makes
// elements here.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <utility>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/batcher.h>
#include <penstock/pipeline/stage/operators.h>

namespace penstock {
namespace stage {

std::unique_ptr<Operator> make_operator(const BatchStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input) {
  constexpr std::uint64_t kKind = 0x4241;
  auto maker = std::make_unique<StackMaker>(context, "batch", kKind, stage.last == LastBatch::kPad ? stage.size : 0);
  return std::make_unique<Batcher>(context, "batch", kKind, stage.size, stage.last, std::move(maker), std::move(input));
}

}  // namespace stage

Pipeline Pipeline::batch(std::size_t size, LastBatch last) const {
  if (size == 0) throw InvalidArgument("batch: a size of 0; at least 1 is needed");
  const Schema& rows = plan_->schemas.back();
  try {
    static_cast<void>(BatchLayout::of(rows, size));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(std::string("batch: ") + error.what());
  }
  if (last == LastBatch::kRefuse) stage::require_whole_batches("batch", element_count(*plan_), size);
  Schema after = stage::stacked_schema("batch", rows, stage::leading_dimension(size, last));
  return with(BatchStage{size, last}, std::move(after));
}

}  // namespace penstock
