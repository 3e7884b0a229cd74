// Batches of samples of different shapes: smaller ones are filled up.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/batcher.h>
#include <penstock/pipeline/stage/padding.h>

namespace penstock {
namespace {

constexpr std::uint64_t kKind = 0x5042;

std::unique_ptr<engine::Operator> make(engine::StreamContext& context, std::unique_ptr<engine::Operator> input,
                                       const Schema& rows, std::size_t size, LastBatch last,
                                       const std::vector<stage::RowShape>& shapes) {
  using engine::Element;
  auto admit = [&context, rows, shapes](Element element) {
    try {
      stage::require_room(rows, shapes, element.sample);
    } catch (const InvalidArgument&) {
      return stage::failed_or_skipped(context, std::move(element), "padded_batch", std::current_exception());
    }
    return element;
  };
  auto maker =
      std::make_unique<stage::StackMaker>(context, "padded_batch", kKind, last == LastBatch::kPad ? size : 0, shapes);
  return std::make_unique<stage::Batcher>(context, "padded_batch", kKind, size, last, std::move(maker),
                                          std::move(input), std::move(admit));
}

}  // namespace

Pipeline Pipeline::padded_batch(std::size_t size, PaddedBatch options) const {
  if (size == 0) throw InvalidArgument("padded_batch: a size of 0; at least 1 is needed");
  if (options.last == LastBatch::kRefuse) stage::require_whole_batches("padded_batch", element_count(*plan_), size);
  const Schema& rows = plan_->schemas.back();
  const std::vector<stage::RowShape> shapes = stage::padded_rows("padded_batch", rows, options);
  Schema after = stage::stacked_schema("padded_batch", stage::padded_schema(rows, shapes),
                                       stage::leading_dimension(size, options.last));
  StreamStage padded;
  padded.name = "padded_batch";
  padded.text = "padded_batch(" + std::to_string(size) + stage::last_text(options.last) + ")";
  padded.size = [size, last = options.last](const std::vector<std::optional<std::uint64_t>>& inputs) {
    return stage::batch_count(inputs[0], size, last);
  };
  padded.make = [rows, size, last = options.last, shapes](engine::StreamContext& context,
                                                          std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return make(context, std::move(inputs.front()), rows, size, last, shapes);
  };
  padded.keeps_elements = true;
  padded.batch_depth = 1;
  return with(std::make_shared<const StreamStage>(std::move(padded)), std::move(after));
}

}  // namespace penstock
