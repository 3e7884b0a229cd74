// Sums and products stay at the largest number, which fits nowhere. Needs are worked out at most once a batch size: a
// caller's function may be dear.
#include <penstock/gpu/plan_sums.h>

#include <algorithm>

namespace penstock::gpu::detail {
namespace {

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) { return b != 0 && a > kNoCap / b ? kNoCap : a * b; }
std::uint64_t rounded(std::uint64_t bytes, std::uint64_t multiple) {
  return bytes > kNoCap - multiple ? kNoCap : round_up(bytes, multiple);
}

}  // namespace

std::uint64_t add(std::uint64_t a, std::uint64_t b) noexcept { return a > kNoCap - b ? kNoCap : a + b; }

bool is_below(const std::string& path, const std::string& root) { return path == root || path.starts_with(root + "/"); }

std::uint64_t fixed_bytes(const FixedNeed& need) {
  return rounded(need.bytes, is_below(need.path, "device") ? kSlabGranule : kPinnedGranule);
}

Choice Planner::asked() const {
  Choice choice{{}, job_.device_cap_bytes, job_.pinned_cap_bytes};
  for (const PhaseNeed& phase : job_.phases) {
    choice.phases.push_back({phase.batch, phase.depth, phase.pinned_depth, phase.cap_bytes});
  }
  return choice;
}

Sum Planner::sum(const Choice& choice) {
  Sum sum;
  for (std::size_t i = 0; i < choice.phases.size(); ++i) {
    const PhaseSum phase = phase_sum(i, choice.phases[i]);
    sum.arena_bytes = std::max(sum.arena_bytes, phase.lease_bytes);
    sum.device_bytes = add(sum.device_bytes, phase.ring_bytes);
    sum.pinned_bytes = add(sum.pinned_bytes, phase.pinned_bytes);
    sum.phases.push_back(phase);
  }
  sum.device_bytes = add(sum.device_bytes, sum.arena_bytes);
  const auto count = [&sum](const std::string& path, std::uint64_t bytes) {
    if (is_below(path, "device")) sum.device_bytes = add(sum.device_bytes, bytes);
    if (is_below(path, "host/pinned")) sum.pinned_bytes = add(sum.pinned_bytes, bytes);
  };
  for (const FixedNeed& need : job_.fixed) count(need.path, fixed_bytes(need));
  for (const FixedNeed& held : job_.held) count(held.path, held.bytes);
  return sum;
}

bool Planner::fits(const Choice& choice) {
  const Sum needs = sum(choice);
  for (std::size_t i = 0; i < needs.phases.size(); ++i) {
    if (needs.phases[i].used_bytes > choice.phases[i].cap_bytes) return false;
  }
  return needs.device_bytes <= device_limit(choice) && needs.pinned_bytes <= choice.pinned_cap_bytes;
}

std::uint64_t Planner::device_limit(const Choice& choice) const {
  return std::min(choice.device_cap_bytes, job_.device_available_bytes);
}

PhaseSum Planner::phase_sum(std::size_t index, const PhaseChoice& choice) {
  PhaseSum sum;
  for (const FixedNeed& held : job_.held) {
    if (held.path == job_.phases[index].name) sum.used_bytes = add(sum.used_bytes, held.bytes);
  }
  if (choice.absent) return sum;
  const PhaseBytes bytes = bytes_at(index, choice.batch);
  sum.ring_bytes = rounded(multiply(choice.depth, rounded(bytes.slot_bytes, kArenaAlignment)), kSlabGranule);
  sum.lease_bytes = rounded(bytes.step_bytes, kSlabGranule);
  sum.pinned_bytes = multiply(choice.pinned_depth, rounded(bytes.slot_bytes, kPinnedGranule));
  sum.used_bytes = add(sum.used_bytes, add(sum.ring_bytes, sum.lease_bytes));
  return sum;
}

PhaseBytes Planner::bytes_at(std::size_t index, std::size_t batch) {
  const auto found = known_[index].find(batch);
  if (found != known_[index].end()) return found->second;
  return known_[index].emplace(batch, job_.phases[index].bytes(batch)).first->second;
}

}  // namespace penstock::gpu::detail
