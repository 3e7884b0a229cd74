// One pass places the weights by group; momenta and gradients repeat that picture elsewhere.
#include <penstock/trainer/model_layout.h>

#include <cmath>
#include <limits>

#include <penstock/gpu/device.h>
#include <penstock/pipeline/draw.h>

namespace penstock::trainer {

namespace {

std::uint64_t padded_bytes(const Parameter& parameter) {
  return gpu::round_up(static_cast<std::uint64_t>(parameter.shape.element_count()) * sizeof(float),
                       gpu::kArenaAlignment);
}

}  // namespace

ModelLayout::ModelLayout(const ModelGraph& graph) {
  const std::vector<Parameter>& parameters = graph.parameters();
  weights.resize(parameters.size());
  momenta.resize(parameters.size());
  gradients.resize(parameters.size());

  std::uint64_t at = 0;
  const auto place = [&](bool trained, bool is_decayed) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].trained != trained || parameters[i].decayed != is_decayed) continue;
      weights[i] = at;
      at += padded_bytes(parameters[i]);
    }
  };
  place(true, true);
  decayed = {0, static_cast<std::int64_t>(at / sizeof(float))};
  place(true, false);
  free = {decayed.count * sizeof(float), static_cast<std::int64_t>(at / sizeof(float)) - decayed.count};
  const std::uint64_t trained_bytes = at;

  momentum_begin = at;
  at += trained_bytes;
  place(false, false);
  train_metrics = at;
  at += gpu::round_up(sizeof(MetricSums), gpu::kArenaAlignment);
  state_bytes = at;
  val_metrics = at;
  at += gpu::round_up(sizeof(MetricSums), gpu::kArenaAlignment);
  scalars = at;
  at += gpu::round_up(sizeof(StepScalars), gpu::kArenaAlignment);
  gradient_begin = at;
  total_bytes = at + trained_bytes;

  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trained) continue;
    momenta[i] = momentum_begin + weights[i];
    gradients[i] = gradient_begin + weights[i];
  }
}

std::vector<std::byte> initial_state(const ModelGraph& graph, const ModelLayout& layout, std::uint64_t seed) {
  // Maps of a pipeline draw for epochs from 0 on; weights take the last one.
  constexpr std::uint64_t kEpoch = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::byte> state(layout.state_bytes);
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    auto* const to = reinterpret_cast<float*>(state.data() + layout.weights[i]);
    Draw draw(seed, kEpoch, i, 0);
    const double bound = 1.0 / std::sqrt(static_cast<double>(parameter.fan_in));
    for (std::int64_t k = 0; k < parameter.shape.element_count(); ++k) {
      switch (parameter.init) {
        case Init::kUniformFanIn:
          to[k] = static_cast<float>(draw.uniform(-bound, bound));
          break;
        case Init::kOnes:
          to[k] = 1;
          break;
        case Init::kZeros:
          break;
      }
    }
  }
  return state;
}

}  // namespace penstock::trainer
