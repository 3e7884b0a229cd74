// One sample becomes any number of them, made one at a time.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/child_range.h>
#include <penstock/pipeline/stage/output_fields.h>
#include <penstock/pipeline/stage/repeatable_input.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

/// Saved as [children of the present parent that have been returned, the input's own from before that parent]: it is
/// pulled again, and those children are passed over.
class FlatMapOperator final : public engine::Operator {
 public:
  FlatMapOperator(engine::StreamContext& context, stage::ChildStage stage, std::unique_ptr<engine::Operator> input)
      : context_(context),
        stage_(std::move(stage)),
        input_(std::move(input)),
        counter_(context.counter(stage_.name)),
        producing_(context, stage_.name) {}

  void start(const engine::Pass& pass) override {
    reset();
    input_->start(pass);
  }

  Pull next(Element& out) override {
    out = {};  // its bytes may be those that are needed here
    for (;;) {
      if (!range_) {
        Element parent;
        const Pull pull = next_parent(parent);
        if (pull != Pull::kElement) return pull;
        if (!parent.is_value()) {
          reset();
          out = std::move(parent);
          return Pull::kElement;
        }
        range_ = std::make_unique<stage::ChildRange>(stage_, context_, counter_, std::move(parent));
        range_->skip(skip_);
      }
      const Pull pull = range_->next(out, producing_);
      if (pull != Pull::kEnd) return pull;
      reset();
    }
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(range_ ? range_->returned() : skip_);
    if (knows_before_) {
      stage::append(cursor, before_);
    } else {
      input_->save(cursor);
    }
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    reset();
    skip_ = cursor.number();
    input_->restore(pass, cursor);
  }

 private:
  Pull next_parent(Element& parent) {
    if (!knows_before_) {
      before_ = Cursor();
      input_->save(before_);
      knows_before_ = true;
    }
    return input_->next(parent);
  }

  void reset() {
    range_.reset();
    skip_ = 0;
    knows_before_ = false;
  }

  engine::StreamContext& context_;
  const stage::ChildStage stage_;
  const std::unique_ptr<engine::Operator> input_;
  engine::StageCounter& counter_;
  engine::Producing producing_;
  std::unique_ptr<stage::ChildRange> range_;  // of the present parent
  std::uint64_t skip_ = 0;                    // children of the next parent that were returned before `restore`
  Cursor before_;                             // the input's, from before the present parent or the next
  bool knows_before_ = false;
};

}  // namespace

Pipeline Pipeline::flat_map(std::function<SampleRange(const Sample&)> function, Outputs outputs) const {
  if (!function) throw InvalidArgument("flat_map: a stage without a function");
  Schema after = stage::output_schema("flat_map", plan_->schemas.back(), outputs);
  StreamStage stage;
  stage.name = "flat_map";
  stage.text = "flat_map";
  stage.size = [](const auto&) { return std::nullopt; };
  stage.make = [children = stage::ChildStage{"flat_map", std::move(function), after}](
                   engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<FlatMapOperator>(context, children, std::move(inputs.front()));
  };
  return with(std::make_shared<const StreamStage>(std::move(stage)), std::move(after));
}

}  // namespace penstock
