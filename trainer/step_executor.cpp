// Every step is one Work with the ranges it declares; addresses are worked out once, when a program is bound.
#include <penstock/trainer/step_executor.h>

#include <utility>

namespace penstock::trainer {

BoundProgram::BoundProgram(StepProgram program, StepPlan plan, std::byte* arena, std::byte* model)
    : program_(std::move(program)), plan_(std::move(plan)), arena_(arena) {
  for (std::size_t id = 0; id < program_.buffers.size(); ++id) {
    const Buffer& buffer = program_.buffers[id];
    std::byte* address = nullptr;
    if (buffer.home == BufferHome::kArena) address = arena + plan_.buffers[id].offset;
    if (buffer.home == BufferHome::kModel) address = model + buffer.offset;
    addresses_.push_back(address);
  }
  const auto ranges = [&](const std::vector<BufferId>& ids) {
    std::vector<gpu::ByteRange> list;
    for (const BufferId id : ids) {
      if (addresses_[id] != nullptr) list.push_back({addresses_[id], program_.buffers[id].bytes});
    }
    return list;
  };
  for (std::size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    scratch_.push_back(step.scratch_bytes == 0 ? nullptr : arena + plan_.scratch[i].offset);
    reads_.push_back(ranges(step.reads));
    writes_.push_back(ranges(step.writes));
    if (step.scratch_bytes != 0) writes_.back().push_back({scratch_.back(), step.scratch_bytes});
  }
}

void StepExecutor::enqueue(const std::shared_ptr<const BoundProgram>& bound, const StepInput& input, std::size_t step) {
  if (before_step) before_step(*bound, step);
  const Step& what = bound->program_.steps[step];
  gpu::Work work{what.name, nullptr, bound->reads_[step], bound->writes_[step]};
  for (const BufferId id : what.reads) {
    const Buffer& buffer = bound->program_.buffers[id];
    if (buffer.home == BufferHome::kImageSlot) work.reads.push_back({input.image, buffer.bytes});
    if (buffer.home == BufferHome::kLabelSlot) work.reads.push_back({input.label, buffer.bytes});
  }
  work.body = [bound, input, step, &backend = backend_](NativeStream stream) {
    bound->program_.steps[step].body(backend, stream, {bound->addresses_.data(), bound->scratch_[step], input});
  };
  device_.enqueue(stream_, std::move(work));
}

void StepExecutor::begin(const std::shared_ptr<const BoundProgram>& bound, const StepInput& input) {
  enqueue(bound, input, 0);
}

void StepExecutor::run(const std::shared_ptr<const BoundProgram>& bound, const StepInput& input, std::size_t first) {
  for (std::size_t step = first; step < bound->program_.steps.size(); ++step) enqueue(bound, input, step);
}

}  // namespace penstock::trainer
