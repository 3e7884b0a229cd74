// The plan of a job: its rows, its refusal and its table, from the sums of plan_sums.h.
#include <penstock/gpu/memory_plan.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include <penstock/gpu/byte_text.h>
#include <penstock/gpu/plan_search.h>
#include <penstock/gpu/plan_sums.h>

namespace penstock::gpu {
namespace {

using detail::Sum;

[[noreturn]] void no_job(const std::string& why) { throw InvalidArgument("memory plan: " + why); }

void check_job(const JobNeed& job) {
  if (job.phases.empty()) no_job("a job has at least one phase");
  std::set<std::string> taken{"device", "host", "host/pinned", "device/step"};
  const auto take = [&taken](const std::string& what, const std::string& path) {
    if (!taken.insert(path).second) no_job(what + " \"" + path + "\" is there twice, or a name that the plan uses");
  };
  for (const PhaseNeed& phase : job.phases) {
    const std::string who = "phase \"" + phase.name + "\": ";
    if (phase.name.empty() || phase.name.find('/') != std::string::npos) {
      no_job(who + "a name without \"/\" is expected");
    }
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
  rows.reserve(job.phases.size());
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    rows.push_back({job.phases[i].name, sum.phases[i].used_bytes, job.phases[i].cap_bytes});
  }
  // Bytes go to the account and to all above it. Phases, which have no root, are counted apart.
  std::map<std::string, std::uint64_t> bytes_of{{"device", 0}, {"host", 0}, {"host/pinned", 0}};
  const auto count = [&bytes_of](std::string path, std::uint64_t bytes) {
    if (!detail::is_below(path, "device") && !detail::is_below(path, "host")) return;
    for (;; path.erase(path.rfind('/'))) {
      std::uint64_t& sum_of_path = bytes_of[path];
      sum_of_path = detail::add(sum_of_path, bytes);
      if (path.find('/') == std::string::npos) break;
    }
  };
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    count("device/" + job.phases[i].name + "/ring", sum.phases[i].ring_bytes);
    count("host/pinned/" + job.phases[i].name, sum.phases[i].pinned_bytes);
  }
  count("device/step", sum.arena_bytes);
  for (const FixedNeed& need : job.fixed) count(need.path, detail::fixed_bytes(need));
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
  states.reserve(names.size());
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
  detail::Planner planner(job);
  const detail::Choice asked = planner.asked();
  const Sum sum = planner.sum(asked);
  MemoryPlan plan;
  plan.accounts = account_rows(job, sum, planner.device_limit(asked));
  plan.states = state_rows(job, sum);
  plan.step_arena_bytes = sum.arena_bytes;
  plan.fits = planner.fits(asked);
  if (!plan.fits) {
    plan.suggestions = detail::suggest(job, planner);
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
