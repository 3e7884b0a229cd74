// Where a model's numbers lie in its slab of device memory: what a checkpoint keeps first and in one piece, then what a
// step makes anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/trainer/backend.h>
#include <penstock/trainer/model_graph.h>

namespace penstock::trainer {

/// Offsets in bytes, each a multiple of 256. Weights that decay come first and weights that do not second, in equal
/// order for weights, momenta and gradients, so that an update is one loop over each group (the padding between holds
/// zeros and stays so).
struct ModelLayout {
  struct Group {
    std::uint64_t offset = 0;  ///< from the begin of weights, momenta or gradients
    std::int64_t count = 0;    ///< floats, padding included
  };

  std::vector<std::uint64_t> weights;    ///< by parameter; statistics too
  std::vector<std::uint64_t> momenta;    ///< by parameter; 0 for statistics
  std::vector<std::uint64_t> gradients;  ///< by parameter; 0 for statistics
  Group decayed;
  Group free;  ///< of weight decay
  std::uint64_t weight_begin = 0;
  std::uint64_t momentum_begin = 0;
  std::uint64_t gradient_begin = 0;
  std::uint64_t train_metrics = 0;
  std::uint64_t state_bytes = 0;  ///< [0, state_bytes) is what a checkpoint keeps
  std::uint64_t val_metrics = 0;
  std::uint64_t scalars = 0;
  std::uint64_t total_bytes = 0;

  explicit ModelLayout(const ModelGraph& graph);
};

/// The first state of `graph` as `layout` places it, `layout.state_bytes` bytes: weights drawn from `seed` and their
/// place in the model alone, momenta and sums 0.
std::vector<std::byte> initial_state(const ModelGraph& graph, const ModelLayout& layout, std::uint64_t seed);

}  // namespace penstock::trainer
