// A stage that works on elements one after the other, in order: all that the engine can neither place by arithmetic
// (shuffle, take, shard, ...) nor run row by row (map, filter). Each lives in a file of its own under stage/, which
// holds the call of Pipeline, the checks, and the operator that runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

namespace engine {
class Operator;
struct StreamContext;
}  // namespace engine

/// One stage of a plan. Immutable once in a plan.
struct StreamStage {
  std::string name;  ///< for messages and reports: `flat_map`
  std::string text;  ///< the same with its parameters, for `describe`: `window(4, shift 2)`
  /// Elements an epoch, from those of the inputs; nothing when that cannot be known.
  std::function<std::optional<std::uint64_t>(const std::vector<std::optional<std::uint64_t>>& inputs)> size;
  /// Makes the operator over those of the plan's inputs (a join), or over the one below it, or over none (a source).
  std::function<std::unique_ptr<engine::Operator>(engine::StreamContext& context,
                                                  std::vector<std::unique_ptr<engine::Operator>> inputs)>
      make;
  bool random = false;          ///< its outcome depends on the epoch: refused before a cache
  bool keeps_identity = false;  ///< elements pass unchanged or not at all, so a cache may follow
  bool keeps_elements = false;  ///< holds elements: LoaderOptions::kept_bytes is reserved
  int batch_depth = 0;          ///< +1 where elements become batches, -1 where batches become elements
};

}  // namespace penstock
