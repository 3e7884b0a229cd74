// Runs step programs on one stream of a device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <penstock/gpu/device.h>
#include <penstock/trainer/backend.h>
#include <penstock/trainer/step_plan.h>
#include <penstock/trainer/step_program.h>

namespace penstock::trainer {

/// A program with its plan and the addresses of its buffers: `arena` + offset, `model` + offset. Immutable.
class BoundProgram {
 public:
  /// `arena` has at least `plan.peak_bytes` bytes; it and `model` outlive everything enqueued.
  BoundProgram(StepProgram program, StepPlan plan, std::byte* arena, std::byte* model);

  const StepProgram& program() const noexcept { return program_; }
  const StepPlan& plan() const noexcept { return plan_; }
  std::byte* arena() const noexcept { return arena_; }

 private:
  friend class StepExecutor;
  StepProgram program_;
  StepPlan plan_;
  std::byte* arena_;
  std::vector<std::byte*> addresses_;                // by buffer; null for the slot's
  std::vector<std::byte*> scratch_;                  // by step
  std::vector<std::vector<gpu::ByteRange>> reads_;   // by step, without the slot
  std::vector<std::vector<gpu::ByteRange>> writes_;  // by step
};

/// Not safe for concurrent use.
class StepExecutor {
 public:
  /// All outlive the executor and what it enqueues.
  StepExecutor(gpu::Device& device, gpu::Stream stream, Backend& backend)
      : device_(device), stream_(stream), backend_(backend) {}

  /// Called on the enqueueing thread before each step of a program; what it enqueues on the stream runs before the
  /// step.
  std::function<void(const BoundProgram& bound, std::size_t step)> before_step;

  /// Enqueues step `first` to the end, by default all. `input` is copied. The slot may be released to the stream after
  /// step 0.
  void run(const std::shared_ptr<const BoundProgram>& bound, const StepInput& input, std::size_t first = 0);
  /// Enqueues only begin_step, the one step that reads the slot.
  void begin(const std::shared_ptr<const BoundProgram>& bound, const StepInput& input);

 private:
  void enqueue(const std::shared_ptr<const BoundProgram>& bound, const StepInput& input, std::size_t step);

  gpu::Device& device_;
  gpu::Stream stream_;
  Backend& backend_;
};

}  // namespace penstock::trainer
