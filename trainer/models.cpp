// Layers are named as PyTorch names those of nn.Sequential: conv .0, batch norm .1, relu .2, pooling .3.
#include <penstock/trainer/models.h>

#include <penstock/pipeline/error.h>

namespace penstock::trainer {

namespace {

constexpr std::int64_t kMlpWidth = 256;
constexpr std::int64_t kResnet9Width = 64;

std::int64_t width_of(const ModelOptions& options, std::int64_t fallback) {
  if (options.width < 0) throw InvalidArgument("width must be at least 1, not " + std::to_string(options.width));
  return options.width == 0 ? fallback : options.width;
}

ValueId conv_bn_relu(ModelGraph& graph, const std::string& name, int first, ValueId x, std::int64_t channels) {
  const auto part = [&](int i) { return name + "." + std::to_string(first + i); };
  x = graph.conv(part(0), x, channels, 3, 1, 1);
  x = graph.batch_norm(part(1), x);
  return graph.relu(part(2), x);
}

ValueId residual(ModelGraph& graph, const std::string& name, ValueId x, std::int64_t channels) {
  const ValueId inner = conv_bn_relu(graph, name, 0, x, channels);
  return graph.add(name, x, conv_bn_relu(graph, name, 3, inner, channels));
}

ValueId conv_pool(ModelGraph& graph, const std::string& name, ValueId x, std::int64_t channels) {
  return graph.max_pool(name + ".3", conv_bn_relu(graph, name, 0, x, channels), 2);
}

}  // namespace

ModelGraph mlp(const ModelOptions& options) {
  const std::int64_t width = width_of(options, kMlpWidth);
  ModelGraph graph(options.input);
  ValueId x = graph.linear("0", ModelGraph::input(), width);
  x = graph.relu("1", x);
  x = graph.linear("2", x, width > 1 ? width / 2 : 1);
  x = graph.relu("3", x);
  x = graph.linear("4", x, options.class_count);
  graph.softmax_cross_entropy("loss", x, options.label_smoothing);
  return graph;
}

ModelGraph resnet9(const ModelOptions& options) {
  const std::int64_t width = width_of(options, kResnet9Width);
  ModelGraph graph(options.input);
  ValueId x = conv_bn_relu(graph, "prep", 0, ModelGraph::input(), width);
  x = conv_pool(graph, "layer1", x, 2 * width);
  x = residual(graph, "residual1", x, 2 * width);
  x = conv_pool(graph, "layer2", x, 4 * width);
  x = conv_pool(graph, "layer3", x, 8 * width);
  x = residual(graph, "residual3", x, 8 * width);
  x = graph.global_max_pool("pool", x);
  x = graph.linear("linear", x, options.class_count);
  x = graph.scale("logits", x, 0.125F);
  graph.softmax_cross_entropy("loss", x, options.label_smoothing);
  return graph;
}

std::int64_t default_width(const std::string& model) {
  if (model == "mlp") return kMlpWidth;
  if (model == "resnet9") return kResnet9Width;
  throw InvalidArgument("unknown model \"" + model + "\": there are mlp, resnet9");
}

ModelGraph make_model(const std::string& model, const ModelOptions& options) {
  default_width(model);
  if (options.class_count < 1) throw InvalidArgument("a model needs at least one class");
  return model == "mlp" ? mlp(options) : resnet9(options);
}

}  // namespace penstock::trainer
