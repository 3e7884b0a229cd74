// The samples before the first that is not wanted.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <utility>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/stack.h>
#include <penstock/pipeline/stage/user_call.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;
using Predicate = std::function<bool(const Sample&)>;

constexpr const char* kName = "take_while";

/// Saved as [is it over, the input's own].
class TakeWhileOperator final : public engine::Operator {
 public:
  TakeWhileOperator(engine::StreamContext& context, Predicate predicate, std::unique_ptr<engine::Operator> input)
      : context_(context),
        predicate_(std::move(predicate)),
        input_(std::move(input)),
        counter_(context.counter(kName)) {}

  void start(const engine::Pass& pass) override {
    over_ = false;
    input_->start(pass);
  }

  Pull next(Element& out) override {
    if (over_) return Pull::kEnd;
    const Pull pull = input_->next(out);
    if (pull != Pull::kElement || !out.is_value()) return pull;
    counter_.add(1, {});
    try {
      const stage::UserCall call(counter_);
      over_ = !predicate_(out.sample);
    } catch (...) {
      out = stage::failed_or_skipped(context_, std::move(out), kName, std::current_exception());
    }
    if (!over_) return Pull::kElement;
    out = {};
    return Pull::kEnd;
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(over_ ? 1 : 0);
    input_->save(cursor);
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    over_ = cursor.number() != 0;
    input_->restore(pass, cursor);
  }

 private:
  engine::StreamContext& context_;
  const Predicate predicate_;
  const std::unique_ptr<engine::Operator> input_;
  engine::StageCounter& counter_;
  bool over_ = false;
};

}  // namespace

Pipeline Pipeline::take_while(std::function<bool(const Sample&)> predicate) const {
  if (!predicate) throw InvalidArgument("take_while: a stage without a function");
  StreamStage stage;
  stage.name = kName;
  stage.text = kName;
  stage.size = [](const auto&) { return std::nullopt; };
  stage.make = [predicate = std::move(predicate)](engine::StreamContext& context,
                                                  std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<TakeWhileOperator>(context, predicate, std::move(inputs.front()));
  };
  stage.keeps_identity = true;
  return with(std::make_shared<const StreamStage>(std::move(stage)), plan_->schemas.back());
}

}  // namespace penstock
