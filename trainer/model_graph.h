// A model as data: operations in topological order over numbered values with static shapes. Building one checks all
// shapes; nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/pipeline/tensor.h>

namespace penstock::trainer {

/// Kinds of operations; ModelGraph has a function for each, which says what it does.
enum class OperationKind : std::uint8_t {
  kConv,
  kLinear,
  kBatchNorm,
  kRelu,
  kMaxPool,
  kGlobalMaxPool,
  kGlobalAveragePool,
  kAdd,
  kScale,
  kSoftmaxCrossEntropy,
};

/// Number of a value in its graph; 0 is the input picture.
using ValueId = std::uint32_t;
/// Number of a parameter in its graph.
using ParameterId = std::uint32_t;

/// What flows between operations. `shape` is of one sample: [height, width, channels] for maps, [features] for vectors.
struct Value {
  std::string name;
  DataType type = DataType::kF32;
  Shape shape;
};

/// How a parameter begins.
enum class Init : std::uint8_t {
  kUniformFanIn,  ///< uniform in +-1/sqrt(fan_in): PyTorch's default for convolutions and linear layers
  kOnes,
  kZeros,
};

/// Numbers that a model keeps. Named as PyTorch would: `prep.0.weight`.
struct Parameter {
  std::string name;
  Shape shape;           ///< convolutions [K, R, S, C], linear [out, in], others [count]
  bool trained = true;   ///< false: statistics of a batch norm
  bool decayed = false;  ///< weight decay applies: not to batch norm and biases
  Init init = Init::kZeros;
  std::int64_t fan_in = 1;
};

/// One operation. `parameters`: conv {weight}; linear {weight, bias}; batch norm {gamma, beta, mean, variance}.
struct Operation {
  OperationKind kind = OperationKind::kRelu;
  std::string name;
  std::vector<ValueId> inputs{};
  ValueId output = 0;  ///< of the loss: its own input
  std::vector<ParameterId> parameters{};
  std::int64_t size = 0;  ///< filter or window
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  float factor = 1;     ///< of kScale
  float smoothing = 0;  ///< of kSoftmaxCrossEntropy, in training
};

/// Built front to back; every call adds an operation and returns its output. All throw InvalidArgument, naming the
/// operation, for shapes that do not fit. Immutable after building; safe to read from many threads.
class ModelGraph {
 public:
  /// Pictures of `input` [height, width, channels], at most 4 channels.
  explicit ModelGraph(const Shape& input);

  static constexpr ValueId input() noexcept { return 0; }
  /// Square filters of `size`, without bias. [h, w, c] -> [oh, ow, k].
  ValueId conv(const std::string& name, ValueId x, std::int64_t k, std::int64_t size, std::int64_t stride,
               std::int64_t pad);
  /// With bias. Any shape, taken as a vector in its memory order (height, width, channels) -> [out].
  ValueId linear(const std::string& name, ValueId x, std::int64_t out);
  /// Over all dimensions but the last.
  ValueId batch_norm(const std::string& name, ValueId x);
  ValueId relu(const std::string& name, ValueId x);
  /// Windows of size x size that touch but do not overlap; 2 <= size <= 15.
  ValueId max_pool(const std::string& name, ValueId x, std::int64_t size);
  /// [h, w, c] -> [c].
  ValueId global_max_pool(const std::string& name, ValueId x);
  ValueId global_average_pool(const std::string& name, ValueId x);
  ValueId add(const std::string& name, ValueId a, ValueId b);
  ValueId scale(const std::string& name, ValueId x, float factor);
  /// Ends the graph: `logits` [classes] against the label.
  void softmax_cross_entropy(const std::string& name, ValueId logits, float smoothing);

  const std::vector<Value>& values() const noexcept { return values_; }
  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  const std::vector<Operation>& operations() const noexcept { return operations_; }
  std::int64_t class_count() const noexcept { return class_count_; }
  /// Numbers that are trained.
  std::uint64_t parameter_count() const noexcept;
  /// Throws InvalidArgument when training with `batch` rows would normalise over a single value, which has no variance.
  void check_training_batch(std::size_t batch) const;

 private:
  ValueId push(Operation operation, const Shape& output);
  ParameterId parameter(Parameter parameter);
  const Shape& map_shape(const std::string& name, ValueId x) const;
  void check_value(const std::string& name, ValueId x) const;

  std::vector<Value> values_;
  std::vector<Parameter> parameters_;
  std::vector<Operation> operations_;
  std::int64_t class_count_ = 0;
};

}  // namespace penstock::trainer
