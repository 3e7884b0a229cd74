// The arithmetic of a plan, and the search for what would fit. Needs are not monotone in the batch size (libraries
// change their algorithms), so batches are scanned from the one asked for downwards, each need worked out at most once;
// nothing is bisected. A suggestion is made only after the whole plan has been worked out with it and fits.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <penstock/gpu/byte_text.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// Sums and products that stay at the largest number, which fits nowhere.
std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a > kNoCap - b ? kNoCap : a + b; }
std::uint64_t multiply(std::uint64_t a, std::uint64_t b) { return b != 0 && a > kNoCap / b ? kNoCap : a * b; }
std::uint64_t rounded(std::uint64_t bytes, std::uint64_t multiple) {
  return bytes > kNoCap - multiple ? kNoCap : round_up(bytes, multiple);
}

bool is_below(const std::string& path, const std::string& root) { return path == root || path.starts_with(root + "/"); }

// One way to run the job: what a suggestion may change.
struct PhaseChoice {
  std::size_t batch;
  std::size_t depth;
  std::size_t pinned_depth;
  std::uint64_t cap_bytes;
  bool absent = false;  // as if the phase needed nothing: what the rest of the job needs
};
struct Choice {
  std::vector<PhaseChoice> phases;
  std::uint64_t device_cap_bytes;
  std::uint64_t pinned_cap_bytes;
};

struct PhaseSum {
  std::uint64_t ring_bytes = 0;
  std::uint64_t lease_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t used_bytes = 0;  // what the phase's cap covers
};
struct Sum {
  std::vector<PhaseSum> phases;
  std::uint64_t arena_bytes = 0;
  std::uint64_t device_bytes = 0;
  std::uint64_t pinned_bytes = 0;
};

std::uint64_t fixed_bytes(const FixedNeed& need) {
  return rounded(need.bytes, is_below(need.path, "device") ? kSlabGranule : kPageBytes);
}

class Planner {
 public:
  explicit Planner(const JobNeed& job) : job_(job), known_(job.phases.size()) {}

  Choice asked() const {
    Choice choice{{}, job_.device_cap_bytes, job_.pinned_cap_bytes};
    for (const PhaseNeed& phase : job_.phases) {
      choice.phases.push_back({phase.batch, phase.depth, phase.pinned_depth, phase.cap_bytes});
    }
    return choice;
  }

  Sum sum(const Choice& choice) {
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

  bool fits(const Choice& choice) {
    const Sum needs = sum(choice);
    for (std::size_t i = 0; i < needs.phases.size(); ++i) {
      if (needs.phases[i].used_bytes > choice.phases[i].cap_bytes) return false;
    }
    return needs.device_bytes <= device_limit(choice) && needs.pinned_bytes <= choice.pinned_cap_bytes;
  }

  std::uint64_t device_limit(const Choice& choice) const {
    return std::min(choice.device_cap_bytes, job_.device_available_bytes);
  }

 private:
  PhaseSum phase_sum(std::size_t index, const PhaseChoice& choice) {
    PhaseSum sum;
    for (const FixedNeed& held : job_.held) {
      if (held.path == job_.phases[index].name) sum.used_bytes = add(sum.used_bytes, held.bytes);
    }
    if (choice.absent) return sum;
    const PhaseBytes bytes = bytes_at(index, choice.batch);
    sum.ring_bytes = rounded(multiply(choice.depth, rounded(bytes.slot_bytes, kArenaAlignment)), kSlabGranule);
    sum.lease_bytes = rounded(bytes.step_bytes, kSlabGranule);
    sum.pinned_bytes = multiply(choice.pinned_depth, rounded(bytes.slot_bytes, kPageBytes));
    sum.used_bytes = add(sum.used_bytes, add(sum.ring_bytes, sum.lease_bytes));
    return sum;
  }

  PhaseBytes bytes_at(std::size_t index, std::size_t batch) {
    const auto found = known_[index].find(batch);
    if (found != known_[index].end()) return found->second;
    return known_[index].emplace(batch, job_.phases[index].bytes(batch)).first->second;
  }

  const JobNeed& job_;
  std::vector<std::unordered_map<std::size_t, PhaseBytes>> known_;  // by phase and batch
};

// Looks for choices near the one asked for, which does not fit.
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
    std::size_t most = 0;
    for (std::size_t phase = 0; phase < all.size(); ++phase) {
      all[phase] = phase;
      most = std::max(most, asked_.phases[phase].batch);
    }
    if (!fits_without(all)) return;
    for (std::size_t part = most - 1; part != 0; --part) {
      Choice choice = asked_;
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

[[noreturn]] void no_job(const std::string& why) { throw InvalidArgument("memory plan: " + why); }

void check_job(const JobNeed& job) {
  if (job.phases.empty()) no_job("a job has at least one phase");
  std::set<std::string> taken{"device", "host", "host/pinned", "device/step"};
  const auto take = [&taken](const std::string& what, const std::string& path) {
    if (!taken.insert(path).second) no_job(what + " \"" + path + "\" is there twice, or a name that the plan uses");
  };
  for (const PhaseNeed& phase : job.phases) {
    const std::string who = "phase \"" + phase.name + "\": ";
    if (phase.name.empty() || phase.name.find('/') != std::string::npos)
      no_job(who + "a name without \"/\" is expected");
    take("phase", phase.name);
    take("account", "device/" + phase.name);
    take("account", "device/" + phase.name + "/ring");
    take("account", "host/pinned/" + phase.name);
    if (phase.batch == 0) no_job(who + "batch 0, expected at least 1");
    if (phase.depth == 0) no_job(who + "depth 0, expected at least 1");
    if (phase.pinned_depth < 2) {
      no_job(who + "pinned depth " + std::to_string(phase.pinned_depth) + ", expected at least 2");
    }
    if (!phase.bytes) no_job(who + "it does not say its bytes");
  }
  for (const FixedNeed& need : job.fixed) {
    if (!need.path.starts_with("device/") && !need.path.starts_with("host/pinned/")) {
      no_job("account \"" + need.path + "\": expected one below device/ or host/pinned/");
    }
    take("account", need.path);
  }
}

std::vector<PlannedAccount> account_rows(const JobNeed& job, const Sum& sum, std::uint64_t device_limit) {
  std::vector<PlannedAccount> rows;
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    rows.push_back({job.phases[i].name, sum.phases[i].used_bytes, job.phases[i].cap_bytes});
  }
  // Bytes go to the account and to all above it, down to the root of what is planned.
  std::map<std::string, std::uint64_t> bytes_of{{"device", 0}, {"host/pinned", 0}};
  const auto count = [&bytes_of](std::string path, std::uint64_t bytes) {
    for (; is_below(path, "device") || is_below(path, "host/pinned"); path.erase(path.rfind('/'))) {
      std::uint64_t& sum_of_path = bytes_of[path];
      sum_of_path = add(sum_of_path, bytes);
      if (path == "device") break;
    }
  };
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    count("device/" + job.phases[i].name + "/ring", sum.phases[i].ring_bytes);
    count("host/pinned/" + job.phases[i].name, sum.phases[i].pinned_bytes);
  }
  count("device/step", sum.arena_bytes);
  for (const FixedNeed& need : job.fixed) count(need.path, fixed_bytes(need));
  for (const FixedNeed& held : job.held) count(held.path, held.bytes);
  for (const auto& [path, bytes] : bytes_of) {
    const std::uint64_t cap = path == "device" ? device_limit : path == "host/pinned" ? job.pinned_cap_bytes : kNoCap;
    rows.push_back({path, bytes, cap});
  }
  return rows;
}

std::vector<PlannedState> state_rows(const JobNeed& job, const Sum& sum) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    names.push_back(job.phases[i].name);
    if (job.phases.size() > 1) {
      names.push_back(job.phases[i].name + "->" + job.phases[(i + 1) % job.phases.size()].name);
    }
  }
  names.emplace_back("checkpoint");
  std::vector<PlannedState> states;
  for (std::string& name : names) states.push_back({std::move(name), sum.device_bytes, sum.pinned_bytes});
  return states;
}

std::string batches_text(const JobNeed& job) {
  std::string text;
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    if (i != 0) text += i + 1 == job.phases.size() ? " and " : ", ";
    text += job.phases[i].name + " batch " + std::to_string(job.phases[i].batch);
  }
  return text + (job.phases.size() == 1 ? " needs " : " need ");
}

std::string violations_text(const JobNeed& job, const Sum& sum) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    const PhaseNeed& phase = job.phases[i];
    if (sum.phases[i].used_bytes <= phase.cap_bytes) continue;
    parts.push_back(phase.name + " batch " + std::to_string(phase.batch) + " needs " +
                    format_size_up(sum.phases[i].used_bytes) + " of the " + phase.name + " cap " +
                    format_size_down(phase.cap_bytes));
  }
  const std::string batches = batches_text(job);
  if (sum.device_bytes > std::min(job.device_cap_bytes, job.device_available_bytes)) {
    const bool by_device = job.device_available_bytes < job.device_cap_bytes;
    parts.push_back(batches + format_size_up(sum.device_bytes) +
                    (by_device ? ", the device has " + format_size_down(job.device_available_bytes)
                               : " of the device cap " + format_size_down(job.device_cap_bytes)));
  }
  if (sum.pinned_bytes > job.pinned_cap_bytes) {
    parts.push_back(batches + format_size_up(sum.pinned_bytes) + " of page-locked memory of the pinned cap " +
                    format_size_down(job.pinned_cap_bytes));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string suggestion_text(const Suggestion& suggestion) {
  const auto change = [](const std::string& knob, std::uint64_t value) {
    return knob.ends_with(" cap") ? knob + " >= " + format_size_up(value) : knob + " " + std::to_string(value);
  };
  std::string text = change(suggestion.knob, suggestion.value);
  const std::string phase = suggestion.knob.substr(0, suggestion.knob.find(' ') + 1);
  for (std::size_t i = 0; i < suggestion.with.size(); ++i) {
    std::string other = change(suggestion.with[i].knob, suggestion.with[i].value);
    if (other.starts_with(phase)) other.erase(0, phase.size());
    text += (i == 0 ? " with " : " and ") + other;
  }
  return text;
}

std::string refusal_text(const JobNeed& job, const Sum& sum, const std::vector<Suggestion>& suggestions) {
  std::string text = violations_text(job, sum);
  if (suggestions.empty()) return text + "; no batch or depth fits";
  text += "; what fits: ";
  for (std::size_t i = 0; i < suggestions.size(); ++i) text += (i == 0 ? "" : "; ") + suggestion_text(suggestions[i]);
  return text;
}

}  // namespace

MemoryPlan plan_memory(const JobNeed& job) {
  check_job(job);
  Planner planner(job);
  const Choice asked = planner.asked();
  const Sum sum = planner.sum(asked);
  MemoryPlan plan;
  plan.accounts = account_rows(job, sum, planner.device_limit(asked));
  plan.states = state_rows(job, sum);
  plan.step_arena_bytes = sum.arena_bytes;
  plan.fits = planner.fits(asked);
  if (!plan.fits) {
    plan.suggestions = Solver(job, planner).solve();
    plan.refusal = refusal_text(job, sum, plan.suggestions);
  }
  return plan;
}

std::string MemoryPlan::table() const {
  std::string text;
  const auto row = [&text](const std::string& first, const std::string& second, const std::string& third) {
    char line[160];
    std::snprintf(line, sizeof line, "%-28s %12s %12s\n", first.c_str(), second.c_str(), third.c_str());
    text += line;
  };
  row("account", "planned", "cap");
  for (const PlannedAccount& account : accounts) {
    row(account.path, format_size(account.planned_peak_bytes),
        account.cap_bytes == kNoCap ? "-" : format_size(account.cap_bytes));
  }
  row("state", "device", "pinned");
  for (const PlannedState& state : states) {
    row(state.name, format_size(state.peak_bytes), format_size(state.pinned_bytes));
  }
  return text;
}

}  // namespace penstock::gpu
