// Numbers the samples of an epoch.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

struct Numbering {
  std::string field;
  std::int64_t first;
  std::size_t batch_depth;
};

/// Saved as [elements so far, the input's own]. The numbers' few bytes are not charged, like an element's origins.
class EnumerateOperator final : public engine::Operator {
 public:
  EnumerateOperator(engine::StreamContext& context, Numbering numbering, std::unique_ptr<engine::Operator> input)
      : numbering_(std::move(numbering)), input_(std::move(input)), counter_(context.counter("enumerate")) {}

  void start(const engine::Pass& pass) override {
    count_ = 0;
    input_->start(pass);
  }

  Pull next(Element& out) override {
    const Pull pull = input_->next(out);
    if (pull != Pull::kElement || out.kind == Element::Kind::kSkipped) return pull;
    if (out.is_value()) {
      out.sample.set(numbering_.field, number_for(out.sample));
      counter_.add(1, {});
    }
    ++count_;
    return Pull::kElement;
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(count_);
    input_->save(cursor);
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    count_ = cursor.number();
    input_->restore(pass, cursor);
  }

 private:
  Tensor number_for(const Sample& sample) const {
    const auto number = static_cast<std::int64_t>(static_cast<std::uint64_t>(numbering_.first) + count_);
    if (numbering_.batch_depth == 0) return Tensor::scalar<std::int64_t>(number);
    const std::span<const std::int64_t> dims = sample.tensors().front().shape().dims();
    const Shape rows(dims.first(numbering_.batch_depth));
    const std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows.element_count()), number);
    return Tensor::copy_of<std::int64_t>(numbers, rows);
  }

  const Numbering numbering_;
  const std::unique_ptr<engine::Operator> input_;
  engine::StageCounter& counter_;
  std::uint64_t count_ = 0;
};

// A batch is one element: all of its rows get its number.
Schema numbered_schema(const Schema& before, const Numbering& numbering) {
  const std::vector<Field>& fields = before.fields();
  if (numbering.field.empty()) throw InvalidArgument("enumerate: a field without a name");
  if (std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return field.name == numbering.field; })) {
    throw InvalidArgument("enumerate: there is a field \"" + numbering.field + "\" already; name another one");
  }
  Shape shape;
  if (numbering.batch_depth > 0) {
    if (fields.empty() || fields.front().shape.rank() < numbering.batch_depth) {
      throw InvalidArgument("enumerate: batches without rows");
    }
    shape = Shape(fields.front().shape.dims().first(numbering.batch_depth));
  }
  std::vector<Field> after = fields;
  after.push_back({numbering.field, DataType::kI64, shape});
  return Schema(std::move(after));
}

}  // namespace

Pipeline Pipeline::enumerate(std::string field, std::int64_t first) const {
  const Numbering numbering{std::move(field), first, static_cast<std::size_t>(plan_->batch_depth)};
  Schema after = numbered_schema(plan_->schemas.back(), numbering);
  StreamStage stage;
  stage.name = "enumerate";
  stage.text = "enumerate(" + numbering.field + ", from " + std::to_string(first) + ")";
  stage.size = [](const auto& inputs) { return inputs.front(); };
  stage.make = [numbering](engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<EnumerateOperator>(context, numbering, std::move(inputs.front()));
  };
  return with(std::make_shared<const StreamStage>(std::move(stage)), std::move(after));
}

}  // namespace penstock
