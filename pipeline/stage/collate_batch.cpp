// Batches that a user's function makes.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/batcher.h>

namespace penstock {
namespace {

using engine::Element;
using Collate = std::function<Sample(const std::vector<Sample>&)>;

constexpr std::uint64_t kKind = 0x4342;

// Rows of the batch that the function returned.
std::size_t require_batch(const Schema& schema, const Sample& batch) {
  const auto got = [](const std::string& name, const Tensor& tensor) {
    return "field \"" + name + "\" is " + to_string(tensor.type()) + " " + tensor.shape().to_string();
  };
  if (batch.names().size() != schema.size()) {
    throw InvalidArgument("the function returned " + std::to_string(batch.names().size()) + " fields, expected " +
                          schema.to_string());
  }
  for (std::size_t f = 0; f < schema.size(); ++f) {
    const Tensor& tensor = batch.tensors()[f];
    if (batch.names()[f] != schema[f].name || tensor.type() != schema[f].type ||
        !schema[f].shape.accepts(tensor.shape())) {
      throw InvalidArgument("the function's " + got(batch.names()[f], tensor) + ", expected " + schema[f].name + ": " +
                            to_string(schema[f].type) + " " + schema[f].shape.to_string());
    }
    if (tensor.shape()[0] != batch.tensors()[0].shape()[0]) {
      throw InvalidArgument("the function's " + got(batch.names()[f], tensor) + ", but " +
                            got(batch.names()[0], batch.tensors()[0]) + ": the leading dimensions differ");
    }
  }
  return static_cast<std::size_t>(batch.tensors()[0].shape()[0]);
}

class CollateMaker final : public stage::BatchMaker {
 public:
  CollateMaker(engine::StreamContext& context, Collate collate, Schema schema)
      : collate_(std::move(collate)),
        schema_(std::move(schema)),
        producing_(context, "batch"),
        counter_(context.counter("batch")) {}

  std::optional<Element> make(stage::Rows rows) override {
    if (!made_) made_ = call(rows);
    try {
      const std::uint64_t bytes = made_->sample.size_bytes();
      made_->charge = producing_.charge(bytes);
      if (!made_->charge && bytes != 0) return std::nullopt;
    } catch (...) {
      forget();
      throw;
    }
    std::optional<Element> out = std::move(made_);
    forget();
    return out;
  }
  void forget() override { made_.reset(); }

 private:
  Element call(stage::Rows rows) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Sample> samples;
    for (const Element* const row : rows) samples.push_back(row->sample);
    Element out = stage::joined(kKind, rows);
    out.sample = collate_(samples);
    const std::size_t count = require_batch(schema_, out.sample);
    for (std::size_t row = 0; row < count; ++row) {
      out.row_origins.push_back(count == rows.size() ? rows[row]->origins : out.origins);
    }
    counter_.add(1, std::chrono::steady_clock::now() - begin, out.sample.size_bytes());
    return out;
  }

  const Collate collate_;
  const Schema schema_;
  engine::Producing producing_;
  engine::StageCounter& counter_;
  std::optional<Element> made_;  // waits for room
};

void require_outputs(const Schema& outputs) {
  if (outputs.size() == 0) throw InvalidArgument("batch: collate needs the fields of a batch; give outputs");
  std::int64_t rows = Shape::kUnknown;
  for (const Field& field : outputs.fields()) {
    if (field.shape.rank() == 0) {
      throw InvalidArgument("batch: field \"" + field.name +
                            "\" of outputs is a scalar; the first dimension is the batch");
    }
    if (field.shape[0] == Shape::kUnknown) continue;
    if (rows != Shape::kUnknown && field.shape[0] != rows) {
      throw InvalidArgument("batch: the leading dimensions of outputs differ: " + outputs.to_string());
    }
    rows = field.shape[0];
  }
}

}  // namespace

Pipeline Pipeline::batch(std::size_t size, std::function<Sample(const std::vector<Sample>&)> collate, Outputs outputs,
                         LastBatch last) const {
  if (size == 0) throw InvalidArgument("batch: a size of 0; at least 1 is needed");
  if (!collate) throw InvalidArgument("batch: collate is no function");
  if (last == LastBatch::kPad) {
    throw InvalidArgument(
        "batch: collate makes the batch, so it is its part to fill the last one; keep or drop it "
        "(LastBatch::kKeep, LastBatch::kDrop)");
  }
  if (last == LastBatch::kRefuse) stage::require_whole_batches("batch", element_count(*plan_), size);
  const Schema after{std::move(outputs)};
  require_outputs(after);
  StreamStage batch;
  batch.name = "batch";
  batch.text = "batch(" + std::to_string(size) + ", collate" + stage::last_text(last) + ")";
  batch.size = [size, last](const std::vector<std::optional<std::uint64_t>>& inputs) {
    return stage::batch_count(inputs[0], size, last);
  };
  batch.make = [size, last, after, collate = std::move(collate)](
                   engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<stage::Batcher>(context, "batch", kKind, size, last,
                                            std::make_unique<CollateMaker>(context, collate, after),
                                            std::move(inputs.front()));
  };
  batch.keeps_elements = true;
  batch.batch_depth = 1;
  return with(std::make_shared<const StreamStage>(std::move(batch)), after);
}

}  // namespace penstock
