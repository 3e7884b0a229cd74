// Greedy by size (Pisarchyk and Lee, 2020): large buffers first, each at the lowest offset that is free for its whole life.
// Equal sizes are taken in order of first use, so that the plan is the same everywhere.
#include <penstock/trainer/step_plan.h>

#include <algorithm>

#include <penstock/gpu/device.h>

namespace penstock::trainer {

namespace {

bool overlap(const Placement& a, const Placement& b) { return a.first <= b.last && b.first <= a.last; }

void place_all(std::vector<Placement*> wanted) {
  std::stable_sort(wanted.begin(), wanted.end(), [](const Placement* a, const Placement* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->first < b->first;
  });
  std::vector<const Placement*> placed;  // by offset
  for (Placement* const item : wanted) {
    std::uint64_t at = 0;
    for (const Placement* const other : placed) {
      if (!overlap(*item, *other)) continue;
      if (at + item->bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    item->offset = at;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), item,
                                   [](const Placement* a, const Placement* b) { return a->offset < b->offset; }),
                  item);
  }
}

std::uint64_t most_alive(const std::vector<Placement*>& items, std::size_t step_count) {
  std::vector<std::int64_t> change(step_count + 1);
  for (const Placement* const item : items) {
    change[item->first] += static_cast<std::int64_t>(item->bytes);
    change[item->last + 1] -= static_cast<std::int64_t>(item->bytes);
  }
  std::int64_t alive = 0;
  std::int64_t most = 0;
  for (const std::int64_t delta : change) {
    alive += delta;
    most = std::max(most, alive);
  }
  return static_cast<std::uint64_t>(most);
}

}  // namespace

StepPlan plan_steps(const StepProgram& program) {
  StepPlan plan;
  plan.buffers.resize(program.buffers.size());
  plan.scratch.resize(program.steps.size());
  std::vector<Placement*> wanted;
  std::vector<bool> seen(program.buffers.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    for (const std::vector<BufferId>* const list : {&step.reads, &step.writes}) {
      for (const BufferId id : *list) {
        if (program.buffers[id].home != BufferHome::kArena) continue;
        Placement& place = plan.buffers[id];
        place.last = i;
        if (seen[id]) continue;
        seen[id] = true;
        place.first = i;
        place.bytes = gpu::round_up(program.buffers[id].bytes, gpu::kArenaAlignment);
        wanted.push_back(&place);
      }
    }
    if (step.scratch_bytes == 0) continue;
    plan.scratch[i] = {0, gpu::round_up(step.scratch_bytes, gpu::kArenaAlignment), i, i};
    wanted.push_back(&plan.scratch[i]);
  }
  plan.lower_bound_bytes = most_alive(wanted, program.steps.size());
  place_all(wanted);
  for (const Placement* const item : wanted) plan.peak_bytes = std::max(plan.peak_bytes, item->offset + item->bytes);
  return plan;
}

double StepPlan::packing_loss() const noexcept {
  return lower_bound_bytes == 0 ? 1.0 : static_cast<double>(peak_bytes) / static_cast<double>(lower_bound_bytes);
}

std::vector<ArenaRange> StepPlan::dead_before(std::size_t step) const {
  std::vector<ArenaRange> alive;
  for (const Placement& place : buffers) {
    if (place.bytes != 0 && place.first < step && step <= place.last) {
      alive.push_back({place.offset, place.offset + place.bytes});
    }
  }
  std::sort(alive.begin(), alive.end(), [](const ArenaRange& a, const ArenaRange& b) { return a.begin < b.begin; });
  std::vector<ArenaRange> dead;
  std::uint64_t at = 0;
  for (const ArenaRange& range : alive) {
    if (range.begin > at) dead.push_back({at, range.begin});
    at = std::max(at, range.end);
  }
  if (at < peak_bytes) dead.push_back({at, peak_bytes});
  return dead;
}

}  // namespace penstock::trainer
