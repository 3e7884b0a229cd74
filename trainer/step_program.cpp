// Emits the steps. Values share a buffer where an operation may work in place: when nobody reads the input again,
// neither later in the forward pass nor, for what was saved, in the backward pass. Gradients are handed on without a
// copy where a sum has several terms; a buffer that several gradients share is never written in place.
#include <penstock/trainer/step_program.h>

#include <optional>
#include <utility>

namespace penstock::trainer {

namespace {

constexpr float kBatchNormMomentum = 0.1F;
constexpr float kBatchNormEpsilon = 1e-5F;

class Emitter {
 public:
  Emitter(const ModelGraph& graph, const ModelLayout& layout, std::size_t batch, const Backend& backend,
          const StepOptions& options, bool training)
      : graph_(graph),
        layout_(layout),
        backend_(backend),
        options_(options),
        training_(training),
        n_(static_cast<std::int64_t>(batch)),
        buffer_of_(graph.values().size()),
        forward_reads_left_(graph.values().size()),
        gradient_of_(graph.values().size()) {
    program_.name = training ? "train" : "val";
    program_.batch = batch;
  }

  StepProgram emit() {
    image_ = add_buffer({"slot.image", bytes_of(ModelGraph::input(), 1), BufferHome::kImageSlot, 0});
    label_ =
        add_buffer({"slot.label", static_cast<std::uint64_t>(n_) * sizeof(std::int64_t), BufferHome::kLabelSlot, 0});
    scalars_ = add_buffer({"scalars", sizeof(StepScalars), BufferHome::kModel, layout_.scalars});
    metrics_ = add_buffer(
        {"metrics", sizeof(MetricSums), BufferHome::kModel, training_ ? layout_.train_metrics : layout_.val_metrics});
    for (std::size_t i = 0; i < graph_.parameters().size(); ++i) {
      const Parameter& parameter = graph_.parameters()[i];
      const std::uint64_t bytes = static_cast<std::uint64_t>(parameter.shape.element_count()) * sizeof(float);
      weights_.push_back(add_buffer({parameter.name, bytes, BufferHome::kModel, layout_.weights[i]}));
      gradients_.push_back(training_ && parameter.trained ? add_buffer({"gradient." + parameter.name, bytes,
                                                                        BufferHome::kModel, layout_.gradients[i]})
                                                          : weights_.back());
    }
    for (const Operation& operation : graph_.operations()) {
      for (const ValueId input : operation.inputs) ++forward_reads_left_[input];
    }
    begin_step();
    indices_.resize(graph_.operations().size());
    statistics_.resize(graph_.operations().size());
    for (std::size_t i = 0; i < graph_.operations().size(); ++i) forward(i);
    if (training_) {
      for (std::size_t i = graph_.operations().size(); i-- > 0;) backward(i);
      update("update.decayed", layout_.decayed, options_.weight_decay);
      update("update.free", layout_.free, 0);
    }
    return std::move(program_);
  }

 private:
  // --- buffers

  BufferId add_buffer(Buffer buffer) {
    program_.buffers.push_back(std::move(buffer));
    saved_.push_back(false);
    holders_.push_back(0);
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }

  std::uint64_t bytes_of(ValueId value, std::uint64_t element_bytes = sizeof(float)) const {
    return static_cast<std::uint64_t>(n_ * graph_.values()[value].shape.element_count()) * element_bytes;
  }

  BufferId arena(const std::string& name, std::uint64_t bytes) {
    return add_buffer({name, bytes, BufferHome::kArena, 0});
  }

  BufferId new_value(ValueId value) {
    buffer_of_[value] = arena(graph_.values()[value].name, bytes_of(value));
    return buffer_of_[value];
  }

  void step(std::string name, std::vector<BufferId> reads, std::vector<BufferId> writes, std::uint64_t scratch,
            StepBody body) {
    program_.steps.push_back({std::move(name), std::move(reads), std::move(writes), scratch, std::move(body)});
  }

  std::int64_t count(ValueId value) const { return n_ * graph_.values()[value].shape.element_count(); }
  std::int64_t last_dim(ValueId value) const {
    const Shape& shape = graph_.values()[value].shape;
    return shape[shape.rank() - 1];
  }
  std::int64_t pixels(ValueId value) const { return graph_.values()[value].shape.element_count() / last_dim(value); }

  ConvShape conv_shape(const Operation& operation) const {
    const Shape& in = graph_.values()[operation.inputs[0]].shape;
    return {.n = n_,
            .h = in[0],
            .w = in[1],
            .c = in[2],
            .k = graph_.values()[operation.output].shape[2],
            .r = operation.size,
            .s = operation.size,
            .stride = operation.stride,
            .pad = operation.pad};
  }

  PoolShape pool_shape(const Operation& operation) const {
    const Shape& in = graph_.values()[operation.inputs[0]].shape;
    return {.n = n_, .h = in[0], .w = in[1], .c = in[2], .size = operation.size};
  }

  // --- forward

  void begin_step() {
    const BufferId input = new_value(ModelGraph::input());
    labels_ = arena("labels", static_cast<std::uint64_t>(n_) * sizeof(std::int32_t));
    step("begin_step", {image_, label_}, {input, labels_, scalars_}, 0,
         [n = n_, pixels = pixels(0), c = last_dim(0), normalisation = options_.normalisation, input, labels = labels_,
          scalars = scalars_](Backend& backend, NativeStream stream, const StepAddresses& at) {
           const StepScalars values = at.input.scalars;
           backend.set_scalars(stream, at.at<StepScalars>(scalars), values);
           backend.cast_normalise(stream, reinterpret_cast<const std::uint8_t*>(at.input.image), at.at<float>(input), n,
                                  pixels, c, normalisation, values.valid);
           backend.copy_labels(stream, reinterpret_cast<const std::int64_t*>(at.input.label),
                               at.at<std::int32_t>(labels), n, values.valid);
         });
  }

  void save(ValueId value) {
    if (training_) saved_[buffer_of_[value]] = true;
  }

  // The buffer of the output: that of `input` when nobody needs the input's value any more.
  BufferId in_place_or_new(ValueId input, ValueId output) {
    const BufferId buffer = buffer_of_[input];
    if (forward_reads_left_[input] == 0 && !saved_[buffer]) {
      buffer_of_[output] = buffer;
      return buffer;
    }
    return new_value(output);
  }

  void forward(std::size_t index) {
    const Operation& operation = graph_.operations()[index];
    for (const ValueId input : operation.inputs) --forward_reads_left_[input];
    const ValueId xv = operation.inputs[0];
    const ValueId yv = operation.output;
    const BufferId x = buffer_of_[xv];
    const std::string name = operation.name;
    switch (operation.kind) {
      case OperationKind::kConv: {
        save(xv);
        const BufferId y = new_value(yv);
        const BufferId w = weights_[operation.parameters[0]];
        const ConvShape shape = conv_shape(operation);
        step(name, {x, w}, {y}, backend_.conv_forward_scratch(shape),
             [=](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.conv_forward(stream, shape, at.at<float>(x), at.at<float>(w), at.at<float>(y), at.scratch);
             });
        break;
      }
      case OperationKind::kLinear: {
        save(xv);
        const BufferId y = new_value(yv);
        const BufferId w = weights_[operation.parameters[0]];
        const BufferId bias = weights_[operation.parameters[1]];
        const std::int64_t in = graph_.values()[xv].shape.element_count();
        const std::int64_t out = last_dim(yv);
        step(name, {x, w, bias}, {y}, 0, [=, n = n_](Backend& backend, NativeStream stream, const StepAddresses& at) {
          backend.linear_forward(stream, n, in, out, at.at<float>(x), at.at<float>(w), at.at<float>(bias),
                                 at.at<float>(y), at.scratch);
        });
        break;
      }
      case OperationKind::kBatchNorm:
        batch_norm_forward(index, operation, x);
        break;
      case OperationKind::kRelu: {
        const BufferId y = in_place_or_new(xv, yv);
        save(yv);
        step(name, {x}, {y}, 0, [=, count = count(xv)](Backend& backend, NativeStream stream, const StepAddresses& at) {
          backend.relu_forward(stream, count, at.at<float>(x), at.at<float>(y));
        });
        break;
      }
      case OperationKind::kMaxPool: {
        const BufferId y = new_value(yv);
        const PoolShape shape = pool_shape(operation);
        std::vector<BufferId> writes{y};
        if (training_) {
          indices_[index] = arena(name + ".index", bytes_of(yv, sizeof(std::uint8_t)));
          writes.push_back(*indices_[index]);
        }
        step(name, {x}, std::move(writes), 0,
             [=, slot = indices_[index]](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.max_pool_forward(stream, shape, at.at<float>(x), at.at<float>(y),
                                        slot ? at.at<std::uint8_t>(*slot) : nullptr);
             });
        break;
      }
      case OperationKind::kGlobalMaxPool: {
        const BufferId y = new_value(yv);
        std::vector<BufferId> writes{y};
        if (training_) {
          indices_[index] = arena(name + ".index", bytes_of(yv, sizeof(std::int32_t)));
          writes.push_back(*indices_[index]);
        }
        step(name, {x}, std::move(writes), 0,
             [=, n = n_, pixels = pixels(xv), c = last_dim(xv), slot = indices_[index]](
                 Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.global_max_pool_forward(stream, n, pixels, c, at.at<float>(x), at.at<float>(y),
                                               slot ? at.at<std::int32_t>(*slot) : nullptr);
             });
        break;
      }
      case OperationKind::kGlobalAveragePool: {
        const BufferId y = new_value(yv);
        step(name, {x}, {y}, 0,
             [=, n = n_, pixels = pixels(xv), c = last_dim(xv)](Backend& backend, NativeStream stream,
                                                                const StepAddresses& at) {
               backend.global_average_pool_forward(stream, n, pixels, c, at.at<float>(x), at.at<float>(y));
             });
        break;
      }
      case OperationKind::kAdd: {
        const ValueId bv = operation.inputs[1];
        const BufferId b = buffer_of_[bv];
        const BufferId y = add_output(xv, bv, yv);
        step(name, {x, b}, {y}, 0,
             [=, count = count(xv)](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.add(stream, count, at.at<float>(x), at.at<float>(b), at.at<float>(y));
             });
        break;
      }
      case OperationKind::kScale: {
        const BufferId y = in_place_or_new(xv, yv);
        step(name, {x}, {y}, 0,
             [=, count = count(xv), factor = operation.factor](Backend& backend, NativeStream stream,
                                                               const StepAddresses& at) {
               backend.scale(stream, count, factor, at.at<float>(x), at.at<float>(y));
             });
        break;
      }
      case OperationKind::kSoftmaxCrossEntropy:
        loss(operation, xv, x);
        break;
    }
  }

  BufferId add_output(ValueId a, ValueId b, ValueId y) {
    for (const ValueId input : {b, a}) {
      if (forward_reads_left_[input] != 0 || saved_[buffer_of_[input]]) continue;
      buffer_of_[y] = buffer_of_[input];
      return buffer_of_[y];
    }
    return new_value(y);
  }

  void batch_norm_forward(std::size_t index, const Operation& operation, BufferId x) {
    const ValueId xv = operation.inputs[0];
    save(xv);
    const BufferId y = new_value(operation.output);
    const BufferId gamma = weights_[operation.parameters[0]];
    const BufferId beta = weights_[operation.parameters[1]];
    const BufferId mean = weights_[operation.parameters[2]];
    const BufferId variance = weights_[operation.parameters[3]];
    const std::int64_t rows = n_ * pixels(xv);
    const std::int64_t c = last_dim(xv);
    if (!training_) {
      step(operation.name, {x, gamma, beta, mean, variance}, {y}, 0,
           [=](Backend& backend, NativeStream stream, const StepAddresses& at) {
             backend.batch_norm_forward_eval(stream, rows, c, at.at<float>(x), at.at<float>(gamma), at.at<float>(beta),
                                             at.at<float>(y), at.at<float>(mean), at.at<float>(variance),
                                             kBatchNormEpsilon);
           });
      return;
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(c) * sizeof(float);
    const BufferId saved_mean = arena(operation.name + ".saved_mean", bytes);
    const BufferId saved_deviation = arena(operation.name + ".saved_inverse_deviation", bytes);
    statistics_[index] = {saved_mean, saved_deviation};
    step(operation.name, {x, gamma, beta, mean, variance}, {y, saved_mean, saved_deviation, mean, variance},
         backend_.batch_norm_scratch(rows, c), [=](Backend& backend, NativeStream stream, const StepAddresses& at) {
           backend.batch_norm_forward_train(stream, rows, c, at.at<float>(x), at.at<float>(gamma), at.at<float>(beta),
                                            at.at<float>(y), at.at<float>(saved_mean), at.at<float>(saved_deviation),
                                            at.at<float>(mean), at.at<float>(variance), kBatchNormMomentum,
                                            kBatchNormEpsilon, at.scratch);
         });
  }

  // The gradient of the logits takes their place, unless they were saved.
  void loss(const Operation& operation, ValueId xv, BufferId logits) {
    const std::int64_t classes = graph_.class_count();
    std::vector<BufferId> writes{metrics_};
    BufferId gradient = logits;
    if (training_) {
      if (saved_[logits]) gradient = arena("gradient." + operation.name, bytes_of(xv));
      writes.push_back(gradient);
      gradient_of_[xv] = gradient;
      ++holders_[gradient];
    }
    step(operation.name, {logits, labels_, metrics_}, std::move(writes),
         backend_.softmax_cross_entropy_scratch(n_, classes),
         [=, n = n_, labels = labels_, metrics = metrics_, training = training_,
          smoothing = training_ ? operation.smoothing : 0.0F](Backend& backend, NativeStream stream,
                                                              const StepAddresses& at) {
           backend.softmax_cross_entropy(stream, n, classes, at.at<float>(logits), at.at<std::int32_t>(labels),
                                         smoothing, training ? at.at<float>(gradient) : nullptr,
                                         at.at<MetricSums>(metrics), at.scratch);
         });
  }

  // --- backward

  static bool wants_gradient(ValueId value) { return value != ModelGraph::input(); }

  // A buffer for the gradient that replaces `dy`: `dy` itself when nobody else holds it.
  BufferId take_in_place(BufferId dy, const std::string& name, std::uint64_t bytes) {
    return holders_[dy] == 0 ? dy : arena(name, bytes);
  }

  // `term` is one summand of the gradient of `value`.
  void contribute(ValueId value, BufferId term) {
    ++holders_[term];
    if (!gradient_of_[value]) {
      gradient_of_[value] = term;
      return;
    }
    const BufferId sum = *gradient_of_[value];
    --holders_[sum];
    --holders_[term];
    BufferId to = sum;
    if (holders_[sum] != 0) to = holders_[term] == 0 ? term : arena("gradient.sum", bytes_of(value));
    step("gradient." + graph_.values()[value].name + ".sum", {sum, term}, {to}, 0,
         [=, count = count(value)](Backend& backend, NativeStream stream, const StepAddresses& at) {
           backend.add(stream, count, at.at<float>(sum), at.at<float>(term), at.at<float>(to));
         });
    gradient_of_[value] = to;
    ++holders_[to];
  }

  void backward(std::size_t index) {
    const Operation& operation = graph_.operations()[index];
    if (operation.kind == OperationKind::kSoftmaxCrossEntropy) return;
    const ValueId xv = operation.inputs[0];
    const ValueId yv = operation.output;
    if (!gradient_of_[yv]) return;  // nothing that counts depends on it
    const BufferId dy = *gradient_of_[yv];
    --holders_[dy];
    const std::string name = "gradient." + operation.name;
    const BufferId x = buffer_of_[xv];
    const BufferId y = buffer_of_[yv];
    switch (operation.kind) {
      case OperationKind::kConv: {
        const ConvShape shape = conv_shape(operation);
        const BufferId w = weights_[operation.parameters[0]];
        const BufferId dw = gradients_[operation.parameters[0]];
        step(name + ".weight", {x, dy}, {dw}, backend_.conv_backward_weight_scratch(shape),
             [=](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.conv_backward_weight(stream, shape, at.at<float>(x), at.at<float>(dy), at.at<float>(dw),
                                            at.scratch);
             });
        if (!wants_gradient(xv)) break;
        const BufferId dx = arena(name, bytes_of(xv));
        step(name + ".data", {dy, w}, {dx}, backend_.conv_backward_data_scratch(shape),
             [=](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.conv_backward_data(stream, shape, at.at<float>(dy), at.at<float>(w), at.at<float>(dx),
                                          at.scratch);
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kLinear: {
        const BufferId w = weights_[operation.parameters[0]];
        const BufferId dw = gradients_[operation.parameters[0]];
        const BufferId dbias = gradients_[operation.parameters[1]];
        const std::int64_t in = graph_.values()[xv].shape.element_count();
        const std::int64_t out = last_dim(yv);
        step(name + ".weight", {x, dy}, {dw, dbias}, backend_.linear_scratch(n_, in, out),
             [=, n = n_](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.linear_backward_weight(stream, n, in, out, at.at<float>(x), at.at<float>(dy), at.at<float>(dw),
                                              at.at<float>(dbias), at.scratch);
             });
        if (!wants_gradient(xv)) break;
        const BufferId dx = arena(name, bytes_of(xv));
        step(name + ".data", {dy, w}, {dx}, 0,
             [=, n = n_](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.linear_backward_data(stream, n, in, out, at.at<float>(dy), at.at<float>(w), at.at<float>(dx),
                                            at.scratch);
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kBatchNorm: {
        const std::int64_t rows = n_ * pixels(xv);
        const std::int64_t c = last_dim(xv);
        const BufferId gamma = weights_[operation.parameters[0]];
        const BufferId dgamma = gradients_[operation.parameters[0]];
        const BufferId dbeta = gradients_[operation.parameters[1]];
        const auto [mean, deviation] = *statistics_[index];
        const BufferId dx = take_in_place(dy, name, bytes_of(xv));
        step(name, {x, gamma, mean, deviation, dy}, {dx, dgamma, dbeta}, backend_.batch_norm_scratch(rows, c),
             [=, saved_mean = mean, saved_deviation = deviation](Backend& backend, NativeStream stream,
                                                                 const StepAddresses& at) {
               backend.batch_norm_backward(stream, rows, c, at.at<float>(x), at.at<float>(gamma),
                                           at.at<float>(saved_mean), at.at<float>(saved_deviation), at.at<float>(dy),
                                           at.at<float>(dx), at.at<float>(dgamma), at.at<float>(dbeta), at.scratch);
             });
        if (wants_gradient(xv)) contribute(xv, dx);
        break;
      }
      case OperationKind::kRelu: {
        if (!wants_gradient(xv)) break;
        const BufferId dx = take_in_place(dy, name, bytes_of(xv));
        step(name, {y, dy}, {dx}, 0,
             [=, count = count(xv)](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.relu_backward(stream, count, at.at<float>(y), at.at<float>(dy), at.at<float>(dx));
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kMaxPool: {
        if (!wants_gradient(xv)) break;
        const BufferId dx = arena(name, bytes_of(xv));
        const PoolShape shape = pool_shape(operation);
        step(name, {dy, *indices_[index]}, {dx}, 0,
             [=, slot = *indices_[index]](Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.max_pool_backward(stream, shape, at.at<float>(dy), at.at<std::uint8_t>(slot), at.at<float>(dx));
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kGlobalMaxPool: {
        if (!wants_gradient(xv)) break;
        const BufferId dx = arena(name, bytes_of(xv));
        step(name, {dy, *indices_[index]}, {dx}, 0,
             [=, n = n_, pixels = pixels(xv), c = last_dim(xv), slot = *indices_[index]](
                 Backend& backend, NativeStream stream, const StepAddresses& at) {
               backend.global_max_pool_backward(stream, n, pixels, c, at.at<float>(dy), at.at<std::int32_t>(slot),
                                                at.at<float>(dx));
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kGlobalAveragePool: {
        if (!wants_gradient(xv)) break;
        const BufferId dx = arena(name, bytes_of(xv));
        step(name, {dy}, {dx}, 0,
             [=, n = n_, pixels = pixels(xv), c = last_dim(xv)](Backend& backend, NativeStream stream,
                                                                const StepAddresses& at) {
               backend.global_average_pool_backward(stream, n, pixels, c, at.at<float>(dy), at.at<float>(dx));
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kAdd: {
        // Both inputs get the same gradient: they share the buffer. It is held for the second while the first is
        // settled.
        ++holders_[dy];
        if (wants_gradient(xv)) contribute(xv, dy);
        --holders_[dy];
        if (wants_gradient(operation.inputs[1])) contribute(operation.inputs[1], dy);
        break;
      }
      case OperationKind::kScale: {
        if (!wants_gradient(xv)) break;
        const BufferId dx = take_in_place(dy, name, bytes_of(xv));
        step(name, {dy}, {dx}, 0,
             [=, count = count(xv), factor = operation.factor](Backend& backend, NativeStream stream,
                                                               const StepAddresses& at) {
               backend.scale(stream, count, factor, at.at<float>(dy), at.at<float>(dx));
             });
        contribute(xv, dx);
        break;
      }
      case OperationKind::kSoftmaxCrossEntropy:
        break;
    }
  }

  // One loop over a whole group: weights, gradients and momenta of a group lie in one piece each.
  void update(const std::string& name, const ModelLayout::Group& group, float weight_decay) {
    if (group.count == 0) return;
    const auto bytes = static_cast<std::uint64_t>(group.count) * sizeof(float);
    const auto whole = [&](const char* what, std::uint64_t begin) {
      return add_buffer({name + "." + what, bytes, BufferHome::kModel, begin + group.offset});
    };
    const BufferId w = whole("weights", layout_.weight_begin);
    const BufferId g = whole("gradients", layout_.gradient_begin);
    const BufferId m = whole("momenta", layout_.momentum_begin);
    step(name, {w, g, m, scalars_}, {w, m}, 0,
         [=, count = group.count, momentum = options_.momentum, scalars = scalars_](
             Backend& backend, NativeStream stream, const StepAddresses& at) {
           backend.sgd_update(stream, count, at.at<float>(w), at.at<float>(g), at.at<float>(m),
                              at.at<StepScalars>(scalars), momentum, weight_decay);
         });
  }

  const ModelGraph& graph_;
  const ModelLayout& layout_;
  const Backend& backend_;
  const StepOptions& options_;
  const bool training_;
  const std::int64_t n_;
  StepProgram program_;
  BufferId image_ = 0, label_ = 0, scalars_ = 0, metrics_ = 0, labels_ = 0;
  std::vector<BufferId> weights_, gradients_;         // by parameter
  std::vector<BufferId> buffer_of_;                   // by value
  std::vector<int> forward_reads_left_;               // by value
  std::vector<std::optional<BufferId>> gradient_of_;  // by value
  std::vector<bool> saved_;                           // by buffer: the backward pass reads what is in it
  std::vector<int> holders_;                          // by buffer: values whose gradient it is
  std::vector<std::optional<BufferId>> indices_;      // by operation: of pooling
  std::vector<std::optional<std::pair<BufferId, BufferId>>> statistics_;  // by operation: mean, inverse deviation
};

}  // namespace

StepProgram training_program(const ModelGraph& graph, const ModelLayout& layout, std::size_t batch,
                             const Backend& backend, const StepOptions& options) {
  return Emitter(graph, layout, batch, backend, options, true).emit();
}

StepProgram evaluation_program(const ModelGraph& graph, const ModelLayout& layout, std::size_t batch,
                               const Backend& backend, const StepOptions& options) {
  return Emitter(graph, layout, batch, backend, options, false).emit();
}

}  // namespace penstock::trainer
