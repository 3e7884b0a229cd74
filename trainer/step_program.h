// A step as one flat list of operations on numbered buffers, with everything each one reads and writes. The memory
// plan, the executor, the simulated devices and the tests all read this list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <penstock/trainer/backend.h>
#include <penstock/trainer/model_graph.h>
#include <penstock/trainer/model_layout.h>

namespace penstock::trainer {

/// Number of a buffer in its program.
using BufferId = std::uint32_t;

/// Where a buffer lies.
enum class BufferHome : std::uint8_t {
  kArena,      ///< placed by the plan; holds nothing before its first write
  kModel,      ///< at `offset` of the model's slab; there in every step
  kImageSlot,  ///< pictures of the batch in its feed slot, u8
  kLabelSlot,  ///< labels of the batch in its feed slot, i64
};

/// Memory that steps read and write.
struct Buffer {
  std::string name;
  std::uint64_t bytes = 0;
  BufferHome home = BufferHome::kArena;
  std::uint64_t offset = 0;  ///< for kModel
};

/// What differs from step to step. Passed by value when the step is enqueued.
struct StepInput {
  const std::byte* image = nullptr;  ///< first row in the slot
  const std::byte* label = nullptr;
  StepScalars scalars;
};

/// Addresses of a step's buffers, for its bodies.
struct StepAddresses {
  std::byte* const* buffers = nullptr;  ///< by BufferId; null for the slot's buffers
  std::byte* scratch = nullptr;         ///< of this step
  StepInput input;
  template <class T>
  T* at(BufferId id) const noexcept {
    return reinterpret_cast<T*>(buffers[id]);
  }
};

/// Makes the calls of a step; safe to run again, with other addresses.
using StepBody = std::function<void(Backend&, NativeStream, const StepAddresses&)>;

/// One operation. `reads` and `writes` are all that its body touches.
struct Step {
  std::string name;
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  std::uint64_t scratch_bytes = 0;  ///< of the arena, during this step only
  StepBody body;
};

/// The steps in the order in which they run.
struct StepProgram {
  std::string name;  ///< `train` or `val`
  std::size_t batch = 0;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
};

/// Numbers of the optimisation that are the same in every step.
struct StepOptions {
  Normalisation normalisation;
  float momentum = 0.9F;
  float weight_decay = 0;
};

/// begin_step, forward, backward and update at `batch` rows. Scratch sizes are the back end's, which depend on shapes
/// alone.
StepProgram training_program(const ModelGraph& graph, const ModelLayout& layout, std::size_t batch,
                             const Backend& backend, const StepOptions& options);
/// begin_step, forward and metrics: reads weights and statistics, writes nothing of the training state; the loss is
/// without label smoothing.
StepProgram evaluation_program(const ModelGraph& graph, const ModelLayout& layout, std::size_t batch,
                               const Backend& backend, const StepOptions& options);

}  // namespace penstock::trainer
