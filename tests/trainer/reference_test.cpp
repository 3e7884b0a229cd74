// Two training steps and an evaluation of a whole model against PyTorch's.
#include <cmath>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/trainer/models.h>

#include "trainer/device_rig.h"
#include "trainer/resnet9_reference.h"

namespace penstock::trainer {
namespace {

constexpr std::size_t kBatch = 6;
constexpr std::int64_t kSide = 8;

// Index in the state's [K, R, S, C] of each index in PyTorch's [K, C, R, S].
std::vector<std::size_t> state_index(const Shape& shape) {
  std::vector<std::size_t> index;
  if (shape.rank() != 4) {
    for (std::int64_t i = 0; i < shape.element_count(); ++i) index.push_back(static_cast<std::size_t>(i));
    return index;
  }
  for (std::int64_t k = 0; k < shape[0]; ++k) {
    for (std::int64_t c = 0; c < shape[3]; ++c) {
      for (std::int64_t tap = 0; tap < shape[1] * shape[2]; ++tap) {
        index.push_back(static_cast<std::size_t>((k * shape[1] * shape[2] + tap) * shape[3] + c));
      }
    }
  }
  return index;
}

TEST(ReferenceTest, TwoStepsOfResnet9AreThoseOfPyTorch) {
  test::DeviceRig rig;
  const ModelGraph graph =
      resnet9({.width = 2, .input = Shape{kSide, kSide, 1}, .class_count = 5, .label_smoothing = 0.1F});
  test::ModelRig model(rig, graph, kBatch);
  const ModelLayout& layout = model.layout();
  int trained = 0;
  for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
    const Parameter& parameter = graph.parameters()[p];
    if (!parameter.trained) continue;
    const bool is_scale = parameter.shape.rank() == 1 && parameter.name.ends_with("weight");
    const std::vector<std::size_t> index = state_index(parameter.shape);
    for (std::size_t i = 0; i < index.size(); ++i) {
      const double value = 0.4 * std::sin(0.7 * static_cast<double>(i) + 1.3 * trained);
      model.floats(layout.weights[p])[index[i]] = static_cast<float>(is_scale ? 1 + value : value);
    }
    ++trained;
  }
  for (std::size_t i = 0; i < kBatch * kSide * kSide; ++i) {
    model.image()[i] = static_cast<std::byte>((i * 37 + i / 64 * 11) % 256);
  }
  for (std::size_t i = 0; i < kBatch; ++i) model.labels()[i] = static_cast<std::int64_t>(i % 5);

  const StepOptions options{.normalisation = {{0.5F}, {4}}, .momentum = 0.9F, .weight_decay = 0.01F};
  const auto train = model.bind(training_program(graph, layout, kBatch, *rig.backend, options));
  const auto val = model.bind(evaluation_program(graph, layout, kBatch, *rig.backend, options));
  for (int step = 0; step < 2; ++step) {
    std::memset(model.model() + layout.train_metrics, 0, sizeof(MetricSums));
    model.run(train, 0.05F);
    EXPECT_NEAR(model.sums(layout.train_metrics).loss / kBatch, test::kReferenceLosses[step], 2e-5) << step;
  }
  model.run(val, 0);
  EXPECT_NEAR(model.sums(layout.val_metrics).loss / kBatch, test::kReferenceLosses[2], 2e-4);

  for (const test::ReferenceParameter& reference : test::kReferenceParameters) {
    bool found = false;
    for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
      if (graph.parameters()[p].name != reference.name) continue;
      found = true;
      const std::vector<std::size_t> index = state_index(graph.parameters()[p].shape);
      double sum = 0;
      double weighted = 0;
      double size = 0;
      for (std::size_t i = 0; i < index.size(); ++i) {
        const double value = model.floats(layout.weights[p])[index[i]];
        sum += value;
        weighted += value * std::sin(static_cast<double>(i));
        size += std::abs(value);
      }
      EXPECT_NEAR(sum, reference.sum, 1e-4 * size + 1e-5) << reference.name;
      EXPECT_NEAR(weighted, reference.weighted, 1e-4 * size + 1e-5) << reference.name;
    }
    EXPECT_TRUE(found) << reference.name;
  }
}

}  // namespace
}  // namespace penstock::trainer
