// Gradients of whole models against finite differences of their loss.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/trainer/models.h>

#include "trainer/device_rig.h"

namespace penstock::trainer {
namespace {

// Steps of a rate of 0 leave the weights; running statistics change, which training does not read.
double mean_loss(test::ModelRig& model, const std::shared_ptr<const BoundProgram>& bound, int batch) {
  std::memset(model.model() + model.layout().train_metrics, 0, sizeof(MetricSums));
  model.run(bound, 0, batch);
  return model.sums(model.layout().train_metrics).loss / batch;
}

void check_gradients(const ModelGraph& graph, int batch) {
  test::DeviceRig rig;
  test::ModelRig model(rig, graph, static_cast<std::size_t>(batch), 3);
  const StepOptions options{.normalisation = {{0.5F, 0.5F, 0.5F}, {2, 2, 2}}, .momentum = 0.9F, .weight_decay = 0};
  const auto bound =
      model.bind(training_program(graph, model.layout(), static_cast<std::size_t>(batch), *rig.backend, options));
  mean_loss(model, bound, batch);
  std::size_t checked = 0;
  for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
    const Parameter& parameter = graph.parameters()[p];
    if (!parameter.trained) continue;
    const auto count = static_cast<std::size_t>(parameter.shape.element_count());
    // One direction over all numbers of the parameter: single ones are too small against rounding.
    mean_loss(model, bound, batch);
    const std::vector<float> gradient(model.floats(model.layout().gradients[p]),
                                      model.floats(model.layout().gradients[p]) + count);
    double norm = 0;
    for (const float value : gradient) norm += static_cast<double>(value) * value;
    norm = std::sqrt(norm);
    ASSERT_GT(norm, 1e-6) << parameter.name;
    float* const weights = model.floats(model.layout().weights[p]);
    const std::vector<float> kept(weights, weights + count);
    double best = 1;
    // Kinks of relu and max pooling spoil some step widths, rounding the small ones: one must be good.
    for (const double width : {3e-2, 1e-2, 3e-3, 1e-3}) {
      double losses[2];
      for (const int side : {0, 1}) {
        for (std::size_t i = 0; i < count; ++i) {
          weights[i] = static_cast<float>(kept[i] + (side == 0 ? -width : width) * gradient[i] / norm);
        }
        losses[side] = mean_loss(model, bound, batch);
      }
      const double difference = (losses[1] - losses[0]) / (2 * width);
      best = std::min(best, std::abs(difference - norm) / norm);
    }
    std::copy(kept.begin(), kept.end(), weights);
    EXPECT_LT(best, 0.02) << parameter.name << " gradient norm " << norm;
    ++checked;
  }
  EXPECT_GT(checked, 5U);
}

TEST(GradientTest, OfMlpAgreesWithFiniteDifferences) {
  check_gradients(mlp({.width = 12, .input = Shape{6, 6, 1}, .class_count = 5, .label_smoothing = 0.1F}), 8);
}

TEST(GradientTest, OfResnet9AgreesWithFiniteDifferences) {
  check_gradients(resnet9({.width = 2, .input = Shape{8, 8, 3}, .class_count = 5, .label_smoothing = 0.1F}), 8);
}

TEST(GradientTest, OfSharedValuesAgreesWithFiniteDifferences) {
  ModelGraph graph(Shape{8, 8, 2});
  ValueId x = graph.conv("conv", ModelGraph::input(), 4, 3, 2, 1);
  x = graph.batch_norm("norm", x);
  const ValueId doubled = graph.add("doubled", x, x);
  const ValueId inner = graph.relu("inner", graph.conv("inner.conv", doubled, 4, 3, 1, 1));
  x = graph.add("sum", doubled, inner);
  x = graph.add("third", x, doubled);
  x = graph.scale("half", x, 0.5F);
  x = graph.max_pool("pool", x, 2);
  x = graph.global_average_pool("average", x);
  graph.softmax_cross_entropy("loss", graph.linear("linear", x, 4), 0.2F);
  check_gradients(graph, 6);
}

TEST(GradientTest, UpdateIsSgdWithNesterovMomentum) {
  test::DeviceRig rig;
  const ModelGraph graph = mlp({.width = 4, .input = Shape{3, 3, 1}, .class_count = 3});
  test::ModelRig model(rig, graph, 4);
  const auto bound = model.bind(training_program(graph, model.layout(), 4, *rig.backend,
                                                 {.normalisation = {}, .momentum = 0.9F, .weight_decay = 0.01F}));
  std::vector<double> w[6];
  std::vector<double> m[6];
  for (std::size_t p = 0; p < 6; ++p) {
    const auto count = static_cast<std::size_t>(graph.parameters()[p].shape.element_count());
    w[p].assign(model.floats(model.layout().weights[p]), model.floats(model.layout().weights[p]) + count);
    m[p].assign(count, 0);
  }
  for (const float rate : {0.1F, 0.05F, 0.2F}) {
    model.run(bound, rate);
    for (std::size_t p = 0; p < 6; ++p) {
      const double decay = graph.parameters()[p].shape.rank() == 2 ? 0.01 : 0;
      for (std::size_t i = 0; i < w[p].size(); ++i) {
        const double g = model.floats(model.layout().gradients[p])[i] + decay * w[p][i];
        m[p][i] = 0.9 * m[p][i] + g;
        w[p][i] -= rate * (g + 0.9 * m[p][i]);
        EXPECT_NEAR(model.floats(model.layout().weights[p])[i], w[p][i], 1e-5) << graph.parameters()[p].name;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::trainer
