// Takes elements apart along their leading dimension: batches give their rows back.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/repeatable_input.h>
#include <penstock/pipeline/stage/stack.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pass;
using engine::Pull;

// Rows of `parent`. What a last batch is filled up with (LastBatch::kPad) is no row.
std::size_t row_count(const Element& parent) {
  const Sample& sample = parent.sample;
  std::optional<std::int64_t> rows;
  for (std::size_t f = 0; f < sample.tensors().size(); ++f) {
    const Shape& shape = sample.tensors()[f].shape();
    const std::string field = "field \"" + sample.names()[f] + "\" is " + shape.to_string();
    if (shape.rank() == 0) throw InvalidArgument(field + ", which has no leading dimension");
    if (rows && *rows != shape[0]) {
      throw InvalidArgument(field + ", but field \"" + sample.names()[0] + "\" is " +
                            sample.tensors()[0].shape().to_string() + ": the leading dimensions differ");
    }
    rows = shape[0];
  }
  const auto count = static_cast<std::size_t>(rows.value_or(0));
  return parent.row_origins.empty() ? count : std::min(count, parent.row_origins.size());
}

std::size_t row_bytes(const Tensor& tensor) {
  return tensor.size_bytes() / static_cast<std::size_t>(tensor.shape()[0]);
}

Tensor row_of(const Tensor& tensor, std::size_t row) {
  const std::size_t bytes = row_bytes(tensor);
  return Tensor::copy_of_bytes(tensor.type(), Shape(tensor.shape().dims().subspan(1)),
                               {tensor.data() + row * bytes, bytes});
}

/// Saved are the input's cursor before the parent and how many of its rows have been given.
class UnbatchOperator final : public engine::Operator {
 public:
  UnbatchOperator(engine::StreamContext& context, std::unique_ptr<engine::Operator> input)
      : context_(context),
        producing_(context, "unbatch"),
        counter_(context.counter("unbatch")),
        input_(std::move(input), [&context](Element element) {
          try {
            static_cast<void>(row_count(element));
          } catch (const InvalidArgument&) {
            return stage::failed_or_skipped(context, std::move(element), "unbatch", std::current_exception());
          }
          return element;
        }) {}

  void start(const Pass& pass) override {
    parent_ = {};
    rows_ = row_ = skip_ = 0;
    from_ = 0;
    input_.start(pass);
  }

  Pull next(Element& out) override {
    out = {};
    while (row_ == rows_) {
      Element element;
      if (const Pull pull = input_.next(element); pull != Pull::kElement) return pull;
      if (!element.is_value()) {
        if (element.kind == Element::Kind::kError) end_parent();
        out = std::move(element);
        return Pull::kElement;
      }
      parent_ = std::move(element);
      rows_ = row_count(parent_);
      row_ = std::min(std::exchange(skip_, 0), rows_);
      if (row_ == rows_) end_parent();
    }
    return give_row(out) ? Pull::kElement : Pull::kPending;
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(row_ + skip_);
    input_.save(cursor, from_);
  }

  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    parent_ = {};
    rows_ = row_ = 0;
    skip_ = static_cast<std::size_t>(cursor.number());
    input_.restore(pass, cursor);
    from_ = input_.number();
  }

 private:
  bool give_row(Element& out) {
    const auto begin = std::chrono::steady_clock::now();
    out.lineage = mix_lineage(parent_.lineage, row_);
    out.origins = parent_.row_origins.empty() ? parent_.origins : parent_.row_origins[row_];
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : parent_.sample.tensors()) bytes += row_bytes(tensor);
    try {
      out.charge = producing_.charge(bytes);
      if (!out.charge && bytes != 0) return false;
      std::vector<Tensor> tensors;
      for (const Tensor& tensor : parent_.sample.tensors()) tensors.push_back(row_of(tensor, row_));
      out.sample =
          Sample(parent_.sample.names(), std::move(tensors), out.origins.empty() ? Origin{} : out.origins.front());
    } catch (const DataError&) {
      out = stage::failed_or_skipped(context_, std::move(out), "unbatch", std::current_exception());
    }
    counter_.add(1, std::chrono::steady_clock::now() - begin, bytes);
    if (++row_ == rows_) end_parent();
    return true;
  }

  void end_parent() {
    parent_ = {};
    rows_ = row_ = skip_ = 0;
    input_.mark();
    from_ = input_.number();
    input_.forget_before(from_);
  }

  engine::StreamContext& context_;
  engine::Producing producing_;
  engine::StageCounter& counter_;
  stage::RepeatableInput input_;
  Element parent_;
  std::size_t rows_ = 0;    // of the parent; 0: there is none
  std::size_t row_ = 0;     // the next to be given
  std::size_t skip_ = 0;    // rows of the next parent that were given before `restore`
  std::uint64_t from_ = 0;  // number of the parent, or of the next one
};

// One row's fields; `leading` becomes their common leading dimension.
Schema row_schema(const Schema& schema, std::int64_t& leading) {
  std::vector<Field> fields = schema.fields();
  leading = Shape::kUnknown;
  for (Field& field : fields) {
    const std::string what = "unbatch: field \"" + field.name + "\" is " + field.shape.to_string();
    if (field.shape.rank() == 0) throw InvalidArgument(what + ", which has no leading dimension to take apart");
    if (field.shape[0] != Shape::kUnknown) {
      if (leading != Shape::kUnknown && leading != field.shape[0]) {
        throw InvalidArgument(what + ", but others have " + std::to_string(leading) +
                              " rows: the leading dimensions differ");
      }
      leading = field.shape[0];
    }
    field.shape = Shape(field.shape.dims().subspan(1));
  }
  return Schema(std::move(fields));
}

// Batches with rows that are none: their number does not follow from the leading dimension.
bool has_padded_batches(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    if (const auto* const batch = std::get_if<BatchStage>(&stage)) return batch->last == LastBatch::kPad;
    const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage);
    return stream && (*stream)->batch_depth > 0;
  });
}

}  // namespace

Pipeline Pipeline::unbatch() const {
  std::int64_t leading = Shape::kUnknown;
  Schema after = row_schema(plan_->schemas.back(), leading);
  if (has_padded_batches(*plan_)) leading = Shape::kUnknown;
  StreamStage unbatch;
  unbatch.name = "unbatch";
  unbatch.text = "unbatch";
  unbatch.size = [leading](const std::vector<std::optional<std::uint64_t>>& inputs) -> std::optional<std::uint64_t> {
    std::uint64_t total = 0;
    if (leading == Shape::kUnknown || !inputs[0]) return std::nullopt;
    if (__builtin_mul_overflow(*inputs[0], static_cast<std::uint64_t>(leading), &total)) return std::nullopt;
    return total;
  };
  unbatch.make = [](engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<UnbatchOperator>(context, std::move(inputs.front()));
  };
  unbatch.batch_depth = -1;
  return with(std::make_shared<const StreamStage>(std::move(unbatch)), std::move(after));
}

}  // namespace penstock
