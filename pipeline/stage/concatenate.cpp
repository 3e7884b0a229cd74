// One input after the other.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/joined_inputs.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

constexpr const char* kName = "concatenate";

/// An input is started when those before it have ended. Saved as [which one, its own].
class ConcatenateOperator final : public engine::Operator {
 public:
  ConcatenateOperator(engine::StreamContext& context, Schema schema,
                      std::vector<std::unique_ptr<engine::Operator>> inputs)
      : schema_(std::move(schema)), inputs_(std::move(inputs)), counter_(context.counter(kName)) {}

  void start(const engine::Pass& pass) override {
    pass_ = pass;
    at_ = 0;
    inputs_[at_]->start(pass_);
  }

  Pull next(Element& out) override {
    for (;;) {
      if (at_ == inputs_.size()) return Pull::kEnd;
      const Pull pull = inputs_[at_]->next(out);
      if (pull == Pull::kEnd) {
        if (++at_ < inputs_.size()) inputs_[at_]->start(pass_);
        continue;
      }
      if (pull == Pull::kElement && out.is_value()) {
        out.sample = stage::in_order(std::move(out.sample), schema_);
        counter_.add(1, {});
      }
      return pull;
    }
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(at_);
    if (at_ < inputs_.size()) inputs_[at_]->save(cursor);
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    pass_ = pass;
    const std::uint64_t at = cursor.number();
    if (at > inputs_.size()) throw InvalidArgument("concatenate: the state is that of another plan");
    at_ = static_cast<std::size_t>(at);
    if (at_ < inputs_.size()) inputs_[at_]->restore(pass_, cursor);
  }

 private:
  const Schema schema_;
  const std::vector<std::unique_ptr<engine::Operator>> inputs_;
  engine::StageCounter& counter_;
  engine::Pass pass_;
  std::size_t at_ = 0;
};

std::optional<std::uint64_t> sum(const std::vector<std::optional<std::uint64_t>>& sizes) {
  std::uint64_t total = 0;
  for (const std::optional<std::uint64_t>& size : sizes) {
    if (!size || __builtin_add_overflow(total, *size, &total)) return std::nullopt;
  }
  return total;
}

}  // namespace

Pipeline concatenate(std::vector<Pipeline> inputs) {
  stage::require_inputs(kName, inputs, 1);
  Schema after = stage::common_schema(kName, inputs);
  StreamStage stage;
  stage.name = kName;
  stage.text = "concatenate(" + std::to_string(inputs.size()) + " inputs)";
  stage.size = sum;
  stage.make = [after](engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> operators) {
    return std::make_unique<ConcatenateOperator>(context, after, std::move(operators));
  };
  return Pipeline::beginning(std::move(stage), inputs, std::move(after));
}

}  // namespace penstock
