// Shapes are checked where an operation is added, so that every graph that exists can be run.
#include <penstock/trainer/model_graph.h>

#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::trainer {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) { throw InvalidArgument(name + ": " + why); }

std::int64_t rows_per_sample(const Shape& shape) { return shape.element_count() / shape[shape.rank() - 1]; }

}  // namespace

ModelGraph::ModelGraph(const Shape& input) {
  if (input.rank() != 3 || !input.known() || input.element_count() <= 0 || input[2] > 4) {
    refuse("input", "pictures must be [height, width, channels] with at most 4 channels, not " + input.to_string());
  }
  values_.push_back({"input", DataType::kF32, input});
}

void ModelGraph::check_value(const std::string& name, ValueId x) const {
  if (class_count_ != 0) refuse(name, "the graph has ended with its loss");
  if (x >= values_.size()) refuse(name, "there is no value " + std::to_string(x));
}

const Shape& ModelGraph::map_shape(const std::string& name, ValueId x) const {
  check_value(name, x);
  const Shape& shape = values_[x].shape;
  if (shape.rank() != 3) refuse(name, "needs a map [height, width, channels], not " + shape.to_string());
  return shape;
}

ValueId ModelGraph::push(Operation operation, const Shape& output) {
  const auto id = static_cast<ValueId>(values_.size());
  operation.output = id;
  values_.push_back({operation.name, DataType::kF32, output});
  operations_.push_back(std::move(operation));
  return id;
}

ParameterId ModelGraph::parameter(Parameter parameter) {
  for (const Parameter& other : parameters_) {
    if (other.name == parameter.name) refuse(parameter.name, "there are two parameters of this name");
  }
  parameters_.push_back(std::move(parameter));
  return static_cast<ParameterId>(parameters_.size() - 1);
}

ValueId ModelGraph::conv(const std::string& name, ValueId x, std::int64_t k, std::int64_t size, std::int64_t stride,
                         std::int64_t pad) {
  const Shape& in = map_shape(name, x);
  if (k < 1 || size < 1 || stride < 1 || pad < 0 || pad >= size) refuse(name, "bad filter");
  if (in[0] + 2 * pad < size || in[1] + 2 * pad < size) refuse(name, "the filter is larger than " + in.to_string());
  const Shape out{(in[0] + 2 * pad - size) / stride + 1, (in[1] + 2 * pad - size) / stride + 1, k};
  Operation operation{.kind = OperationKind::kConv, .name = name, .inputs = {x}};
  operation.size = size;
  operation.stride = stride;
  operation.pad = pad;
  operation.parameters = {
      parameter({name + ".weight", Shape{k, size, size, in[2]}, true, true, Init::kUniformFanIn, size * size * in[2]})};
  return push(std::move(operation), out);
}

ValueId ModelGraph::linear(const std::string& name, ValueId x, std::int64_t out) {
  check_value(name, x);
  const std::int64_t in = values_[x].shape.element_count();
  if (out < 1) refuse(name, "needs at least one output");
  Operation operation{.kind = OperationKind::kLinear, .name = name, .inputs = {x}};
  operation.parameters = {parameter({name + ".weight", Shape{out, in}, true, true, Init::kUniformFanIn, in}),
                          parameter({name + ".bias", Shape{out}, true, false, Init::kUniformFanIn, in})};
  return push(std::move(operation), Shape{out});
}

ValueId ModelGraph::batch_norm(const std::string& name, ValueId x) {
  check_value(name, x);
  const Shape shape = values_[x].shape;
  const std::int64_t c = shape[shape.rank() - 1];
  Operation operation{.kind = OperationKind::kBatchNorm, .name = name, .inputs = {x}};
  operation.parameters = {parameter({name + ".weight", Shape{c}, true, false, Init::kOnes, 1}),
                          parameter({name + ".bias", Shape{c}, true, false, Init::kZeros, 1}),
                          parameter({name + ".running_mean", Shape{c}, false, false, Init::kZeros, 1}),
                          parameter({name + ".running_var", Shape{c}, false, false, Init::kOnes, 1})};
  return push(std::move(operation), shape);
}

ValueId ModelGraph::relu(const std::string& name, ValueId x) {
  check_value(name, x);
  return push({.kind = OperationKind::kRelu, .name = name, .inputs = {x}}, Shape(values_[x].shape));
}

ValueId ModelGraph::max_pool(const std::string& name, ValueId x, std::int64_t size) {
  const Shape& in = map_shape(name, x);
  if (size < 2 || size > 15) refuse(name, "the window must be 2 to 15 wide");
  if (in[0] < size || in[1] < size) refuse(name, "the window is larger than " + in.to_string());
  Operation operation{.kind = OperationKind::kMaxPool, .name = name, .inputs = {x}};
  operation.size = size;
  return push(std::move(operation), Shape{in[0] / size, in[1] / size, in[2]});
}

ValueId ModelGraph::global_max_pool(const std::string& name, ValueId x) {
  const Shape& in = map_shape(name, x);
  return push({.kind = OperationKind::kGlobalMaxPool, .name = name, .inputs = {x}}, Shape{in[2]});
}

ValueId ModelGraph::global_average_pool(const std::string& name, ValueId x) {
  const Shape& in = map_shape(name, x);
  return push({.kind = OperationKind::kGlobalAveragePool, .name = name, .inputs = {x}}, Shape{in[2]});
}

ValueId ModelGraph::add(const std::string& name, ValueId a, ValueId b) {
  check_value(name, a);
  check_value(name, b);
  if (values_[a].shape != values_[b].shape) {
    refuse(name, "cannot add " + values_[a].shape.to_string() + " and " + values_[b].shape.to_string());
  }
  return push({.kind = OperationKind::kAdd, .name = name, .inputs = {a, b}}, Shape(values_[a].shape));
}

ValueId ModelGraph::scale(const std::string& name, ValueId x, float factor) {
  check_value(name, x);
  Operation operation{.kind = OperationKind::kScale, .name = name, .inputs = {x}};
  operation.factor = factor;
  return push(std::move(operation), Shape(values_[x].shape));
}

void ModelGraph::softmax_cross_entropy(const std::string& name, ValueId logits, float smoothing) {
  check_value(name, logits);
  const Shape& shape = values_[logits].shape;
  if (shape.rank() != 1) refuse(name, "needs logits [classes], not " + shape.to_string());
  if (!(smoothing >= 0 && smoothing < 1)) refuse(name, "label smoothing must be in [0, 1)");
  Operation operation{.kind = OperationKind::kSoftmaxCrossEntropy, .name = name, .inputs = {logits}};
  operation.output = logits;
  operation.smoothing = smoothing;
  class_count_ = shape[0];
  operations_.push_back(std::move(operation));
}

std::uint64_t ModelGraph::parameter_count() const noexcept {
  std::uint64_t count = 0;
  for (const Parameter& parameter : parameters_) {
    if (parameter.trained) count += static_cast<std::uint64_t>(parameter.shape.element_count());
  }
  return count;
}

void ModelGraph::check_training_batch(std::size_t batch) const {
  for (const Operation& operation : operations_) {
    if (operation.kind != OperationKind::kBatchNorm) continue;
    const Shape& shape = values_[operation.inputs[0]].shape;
    if (static_cast<std::int64_t>(batch) * rows_per_sample(shape) < 2) {
      refuse(operation.name, "batch norm over maps of one value and a training batch of " + std::to_string(batch) +
                                 " has no variance: the training batch must be at least 2");
    }
  }
}

}  // namespace penstock::trainer
