// A host device with a stream, a back end and plain memory, to run step programs without a trainer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <penstock/gpu/device.h>
#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/trainer/backend.h>
#include <penstock/trainer/model_graph.h>
#include <penstock/trainer/model_layout.h>
#include <penstock/trainer/step_executor.h>
#include <penstock/trainer/step_plan.h>
#include <penstock/trainer/step_program.h>

namespace penstock::test {

struct DeviceRig {
  explicit DeviceRig(std::size_t threads = 2)
      : runtime(RuntimeOptions{.threads = threads}),
        device(gpu::make_host_device(runtime, std::uint64_t{1} << 30)),
        backend(trainer::make_backend(*device, runtime)),
        stream(device->create_stream("test")) {}

  Runtime runtime;
  std::shared_ptr<gpu::Device> device;
  std::unique_ptr<trainer::Backend> backend;
  gpu::Stream stream;
};

/// A model with its state and one batch of random pictures and labels, all in memory of the device.
class ModelRig {
 public:
  ModelRig(DeviceRig& rig, const trainer::ModelGraph& graph, std::size_t batch, std::uint64_t seed = 1)
      : rig_(rig), graph_(graph), layout_(graph), batch_(batch) {
    model_ = take(layout_.total_bytes);
    restart(seed);
    const auto pixels = static_cast<std::size_t>(graph.values()[0].shape.element_count());
    image_ = take(batch * pixels);
    label_ = take(batch * sizeof(std::int64_t));
    Draw draw(seed, 0, 77, 0);
    for (std::size_t i = 0; i < batch * pixels; ++i) image_[i] = static_cast<std::byte>(draw.below(256));
    for (std::size_t i = 0; i < batch; ++i) {
      labels()[i] = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(graph.class_count())));
    }
  }
  ModelRig(const ModelRig&) = delete;
  ModelRig& operator=(const ModelRig&) = delete;
  ~ModelRig() {
    rig_.device->synchronize(rig_.stream);
    for (std::byte* const memory : taken_) rig_.device->free(memory);
  }

  /// The first state again; everything else in the model's slab is 0.
  void restart(std::uint64_t seed) {
    std::memset(model_, 0, layout_.total_bytes);
    const std::vector<std::byte> state = trainer::initial_state(graph_, layout_, seed);
    std::memcpy(model_, state.data(), state.size());
  }

  std::byte* take(std::uint64_t bytes) {
    taken_.push_back(static_cast<std::byte*>(rig_.device->allocate(bytes)));
    std::memset(taken_.back(), 0, bytes);
    return taken_.back();
  }

  std::shared_ptr<const trainer::BoundProgram> bind(trainer::StepProgram program, trainer::StepPlan plan) {
    std::byte* const arena = take(plan.peak_bytes + 4096);
    return std::make_shared<const trainer::BoundProgram>(std::move(program), std::move(plan), arena, model_);
  }
  std::shared_ptr<const trainer::BoundProgram> bind(trainer::StepProgram program) {
    trainer::StepPlan plan = trainer::plan_steps(program);
    return bind(std::move(program), std::move(plan));
  }

  void run(const std::shared_ptr<const trainer::BoundProgram>& bound, float learning_rate, std::int32_t valid,
           const std::function<void(const trainer::BoundProgram&, std::size_t)>& before_step = {}) {
    trainer::StepExecutor executor(*rig_.device, rig_.stream, *rig_.backend);
    executor.before_step = before_step;
    executor.run(bound, {image_, label_, {learning_rate, valid}});
    rig_.device->synchronize(rig_.stream);
  }
  void run(const std::shared_ptr<const trainer::BoundProgram>& bound, float learning_rate = 0.1F) {
    run(bound, learning_rate, static_cast<std::int32_t>(batch_));
  }

  const trainer::ModelLayout& layout() const { return layout_; }
  std::byte* model() const { return model_; }
  std::byte* image() const { return image_; }
  std::int64_t* labels() const { return reinterpret_cast<std::int64_t*>(label_); }
  float* floats(std::uint64_t offset) const { return reinterpret_cast<float*>(model_ + offset); }
  trainer::MetricSums sums(std::uint64_t offset) const {
    trainer::MetricSums value;
    std::memcpy(&value, model_ + offset, sizeof value);
    return value;
  }
  std::vector<std::byte> slab() const { return {model_, model_ + layout_.total_bytes}; }

 private:
  DeviceRig& rig_;
  const trainer::ModelGraph& graph_;
  trainer::ModelLayout layout_;
  std::size_t batch_;
  std::byte* model_ = nullptr;
  std::byte* image_ = nullptr;
  std::byte* label_ = nullptr;
  std::vector<std::byte*> taken_;
};

}  // namespace penstock::test
