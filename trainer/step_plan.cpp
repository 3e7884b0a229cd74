// Greedy (Pisarchyk and Lee, 2020): one buffer after the other, each at the lowest offset that is free for its whole
// life, large ones first; and in a few other orders, of which the best is kept. Ties keep the program's order, so that
// the plan is the same everywhere.
#include <penstock/trainer/step_plan.h>

#include <algorithm>

#include <penstock/gpu/device.h>

namespace penstock::trainer {

namespace {

bool overlap(const Placement& a, const Placement& b) { return a.first <= b.last && b.first <= a.last; }

std::size_t length(const Placement& place) { return place.last - place.first + 1; }

// Orders in which things are placed. None is best for every program; all are cheap.
using Before = bool (*)(const Placement&, const Placement&);
constexpr Before kOrders[] = {
    [](const Placement& a, const Placement& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first; },
    [](const Placement& a, const Placement& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.last > b.last; },
    [](const Placement& a, const Placement& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : length(a) > length(b);
    },
    [](const Placement& a, const Placement& b) {
      return length(a) != length(b) ? length(a) > length(b) : a.bytes > b.bytes;
    },
    [](const Placement& a, const Placement& b) { return a.bytes * length(a) > b.bytes * length(b); },
    [](const Placement& a, const Placement& b) { return a.first != b.first ? a.first < b.first : a.bytes > b.bytes; },
};

// Each at the lowest offset that is free for its whole life. Returns the peak.
std::uint64_t place_in_turn(const std::vector<Placement*>& turn) {
  std::uint64_t peak = 0;
  std::vector<const Placement*> placed;  // by offset
  for (Placement* const item : turn) {
    std::uint64_t at = 0;
    for (const Placement* const other : placed) {
      if (!overlap(*item, *other)) continue;
      if (at + item->bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    item->offset = at;
    peak = std::max(peak, at + item->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), item,
                                   [](const Placement* a, const Placement* b) { return a->offset < b->offset; }),
                  item);
  }
  return peak;
}

// Keeps the turn with the lowest peak. From each order on, what stands highest moves to the front, a few times.
std::uint64_t place_all(const std::vector<Placement*>& wanted, std::uint64_t lower_bound) {
  constexpr int kMoves = 16;
  std::vector<Placement*> best;
  std::uint64_t best_peak = 0;
  for (const Before before : kOrders) {
    std::vector<Placement*> turn = wanted;
    std::stable_sort(turn.begin(), turn.end(),
                     [before](const Placement* a, const Placement* b) { return before(*a, *b); });
    for (int move = 0; move <= kMoves && (best.empty() || best_peak > lower_bound); ++move) {
      const std::uint64_t peak = place_in_turn(turn);
      if (best.empty() || peak < best_peak) {
        best = turn;
        best_peak = peak;
      }
      const auto highest = std::find_if(turn.begin(), turn.end(),
                                        [peak](const Placement* item) { return item->offset + item->bytes == peak; });
      if (highest == turn.end()) break;
      std::rotate(turn.begin(), highest, highest + 1);
    }
  }
  return place_in_turn(best);
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
  plan.peak_bytes = place_all(wanted, plan.lower_bound_bytes);
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
