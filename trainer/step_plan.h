// Places every buffer of a program in one arena, from lifetimes alone: a pure function, no device. The peak is a number
// before anything runs.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/trainer/step_program.h>

namespace penstock::trainer {

/// A place in the arena during steps [first, last]. `bytes` is 0 for what is not in the arena.
struct Placement {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< rounded up to gpu::kArenaAlignment
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Half-open range of arena bytes.
struct ArenaRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Where everything lies, and how large the arena must be.
struct StepPlan {
  std::vector<Placement> buffers;  ///< by BufferId
  std::vector<Placement> scratch;  ///< by step
  std::uint64_t peak_bytes = 0;
  std::uint64_t lower_bound_bytes = 0;  ///< the most bytes that live at once: no placement can need less

  /// peak / lower bound, 1 when nothing is lost between the buffers.
  double packing_loss() const noexcept;
  /// Bytes of [0, peak) that hold nothing anybody may read when step `step` begins: outside every buffer that was
  /// written before it and lives on in it. In order, apart from each other.
  std::vector<ArenaRange> dead_before(std::size_t step) const;
};

/// A buffer lives from the first step that touches it to the last; scratch during its step. Each is placed in the
/// lowest gap among those that live at the same time, in a few orders (largest first and others), of which the lowest
/// peak is kept.
StepPlan plan_steps(const StepProgram& program);

}  // namespace penstock::trainer
