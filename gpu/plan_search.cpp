// Needs are not monotone in the batch size (libraries change their algorithms), so batches are scanned from the one
// asked for downwards; nothing is bisected. A suggestion is made only after the whole plan has been worked out with it
// and fits.
#include <penstock/gpu/plan_search.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace penstock::gpu::detail {
namespace {

class Solver {
 public:
  Solver(const JobNeed& job, Planner& planner) : job_(job), planner_(planner), asked_(planner.asked()) {}

  std::vector<Suggestion> solve() {
    for (std::size_t phase = 0; phase < job_.phases.size(); ++phase) {
      if (fits_without({phase})) suggest_phase(phase);
    }
    if (!found_batch_ && job_.phases.size() > 1) suggest_batches_together();
    suggest_caps();
    return std::move(suggestions_);
  }

 private:
  bool fits_without(const std::vector<std::size_t>& phases) {
    Choice choice = asked_;
    for (const std::size_t phase : phases) choice.phases[phase].absent = true;
    return planner_.fits(choice);
  }

  // The largest batch of `phase`, not above the one in `choice`, that fits; 0 when there is none.
  std::size_t largest_batch(Choice choice, std::size_t phase) {
    std::size_t& batch = choice.phases[phase].batch;
    if (!planner_.fits(choice)) batch = std::min(batch, job_.phases[phase].sample_count);
    while (batch != 0 && !planner_.fits(choice)) --batch;
    return batch;
  }

  void suggest_phase(std::size_t phase) {
    const std::string& name = job_.phases[phase].name;
    const std::size_t batch = largest_batch(asked_, phase);
    if (batch != 0) {
      suggestions_.push_back({name + " batch", batch, {}});
      found_batch_ = true;
    }
    suggest_depth(phase, batch);
    Choice choice = asked_;
    std::size_t& pinned_depth = choice.phases[phase].pinned_depth;
    while (pinned_depth > 2) {
      --pinned_depth;
      if (!planner_.fits(choice)) continue;
      suggestions_.push_back({name + " pinned depth", pinned_depth, {}});
      break;
    }
  }

  void suggest_depth(std::size_t phase, std::size_t batch_at_asked_depth) {
    const std::string& name = job_.phases[phase].name;
    Choice choice = asked_;
    std::size_t& depth = choice.phases[phase].depth;
    if (depth == 1) return;
    while (depth > 1) {
      --depth;
      if (!planner_.fits(choice)) continue;
      suggestions_.push_back({name + " depth", depth, {}});
      return;
    }
    const std::size_t batch = largest_batch(choice, phase);
    if (batch > batch_at_asked_depth) {
      suggestions_.push_back({name + " depth", 1, {{name + " batch", batch, {}}}});
      found_batch_ = true;
    }
  }

  // No phase alone can make room: all batches shrink by one ratio, then each grows again as far as it can.
  void suggest_batches_together() {
    std::vector<std::size_t> all(job_.phases.size());
    Choice useful = asked_;
    std::size_t most = 0;
    for (std::size_t phase = 0; phase < all.size(); ++phase) {
      all[phase] = phase;
      std::size_t& batch = useful.phases[phase].batch;
      batch = std::min(batch, job_.phases[phase].sample_count);
      most = std::max(most, batch);
    }
    if (!fits_without(all)) return;
    for (std::size_t part = most; part != 0; --part) {
      Choice choice = useful;
      for (PhaseChoice& phase : choice.phases) phase.batch = std::max<std::size_t>(1, phase.batch * part / most);
      if (!planner_.fits(choice)) continue;
      for (std::size_t phase = 0; phase < all.size(); ++phase) {
        Choice larger = choice;
        larger.phases[phase].batch = asked_.phases[phase].batch;
        choice.phases[phase].batch = largest_batch(larger, phase);
      }
      std::vector<Suggestion> changes;
      for (std::size_t phase = 0; phase < all.size(); ++phase) {
        if (choice.phases[phase].batch == asked_.phases[phase].batch) continue;
        changes.push_back({job_.phases[phase].name + " batch", choice.phases[phase].batch, {}});
      }
      push_together(std::move(changes));
      return;
    }
  }

  void suggest_caps() {
    const Sum needs = planner_.sum(asked_);
    if (needs.device_bytes > job_.device_available_bytes) return;
    std::vector<Suggestion> changes;
    for (std::size_t phase = 0; phase < needs.phases.size(); ++phase) {
      const std::uint64_t used = needs.phases[phase].used_bytes;
      if (used > asked_.phases[phase].cap_bytes) changes.push_back({job_.phases[phase].name + " cap", used, {}});
    }
    if (needs.device_bytes > asked_.device_cap_bytes) changes.push_back({"device cap", needs.device_bytes, {}});
    if (needs.pinned_bytes > asked_.pinned_cap_bytes) changes.push_back({"pinned cap", needs.pinned_bytes, {}});
    push_together(std::move(changes));
  }

  void push_together(std::vector<Suggestion> changes) {
    Suggestion first = std::move(changes.front());
    first.with.assign(std::make_move_iterator(changes.begin() + 1), std::make_move_iterator(changes.end()));
    suggestions_.push_back(std::move(first));
  }

  const JobNeed& job_;
  Planner& planner_;
  const Choice asked_;
  std::vector<Suggestion> suggestions_;
  bool found_batch_ = false;
};

}  // namespace

std::vector<Suggestion> suggest(const JobNeed& job, Planner& planner) { return Solver(job, planner).solve(); }

}  // namespace penstock::gpu::detail
