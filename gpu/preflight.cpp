// Takes the memory of a job in one go and proves the plan. The plan's rows are the ledger's rows, so "measured equals
// planned" is a comparison row by row; a row that others added meanwhile shows up in its parents.
#include <algorithm>
#include <cstring>

#include <penstock/gpu/preflight.h>

namespace penstock::gpu {
namespace {

bool is_device_path(const std::string& path) { return path == "device" || path.starts_with("device/"); }

// Bytes in the ledger before this job: what accounts hold beyond their children, and what phases hold.
std::vector<FixedNeed> held_bytes(const MemoryAccounts& accounts) {
  const std::vector<AccountFigures> rows = accounts.figures();
  std::map<std::string, std::uint64_t> in_children;
  for (const AccountFigures& row : rows) {
    const std::size_t slash = row.path.rfind('/');
    if (slash != std::string::npos) in_children[row.path.substr(0, slash)] += row.current_bytes;
  }
  std::vector<FixedNeed> held;
  for (const AccountFigures& row : rows) {
    const std::uint64_t own = row.current_bytes - in_children[row.path];
    if (own != 0) held.push_back({row.path, own});
  }
  return held;
}

JobNeed with_facts(const Device& device, const MemoryAccounts& accounts, const JobNeed& job) {
  JobNeed full = job;
  full.held = held_bytes(accounts);
  std::uint64_t charged = 0;
  for (const FixedNeed& held : full.held) charged += is_device_path(held.path) ? held.bytes : 0;
  full.device_available_bytes = std::min(job.device_available_bytes, device.memory_info().free_bytes + charged);
  return full;
}

void make_accounts(MemoryAccounts& accounts, const JobNeed& job, const MemoryPlan& plan) {
  for (const PhaseNeed& phase : job.phases) {
    accounts.phase(phase.name);
    accounts.account("device/" + phase.name + "/ring", phase.name);
  }
  for (std::size_t i = 0; i < plan.accounts.size(); ++i) {
    const PlannedAccount& row = plan.accounts[i];
    if (i >= job.phases.size()) accounts.account(row.path);  // phases come first
    accounts.set_cap(row.path, row.cap_bytes);
  }
}

FeedMemory take_feed(const std::shared_ptr<Device>& device, MemoryAccounts& accounts, const PhaseNeed& phase) {
  FeedMemory feed;
  feed.slot_bytes = round_up(phase.bytes(phase.batch).slot_bytes, kArenaAlignment);
  feed.depth = phase.depth;
  feed.slots = Slab(device, accounts.account("device/" + phase.name + "/ring"), phase.depth * feed.slot_bytes, "slots");
  const MemoryAccount pinned = accounts.account("host/pinned/" + phase.name);
  for (std::size_t i = 0; i < phase.pinned_depth; ++i) {
    feed.buffers.emplace_back(device, pinned, feed.slot_bytes, "buffer");
  }
  return feed;
}

void clear_device(Device& device, const JobMemory& memory) {
  const auto clear = [&](const Slab& slab) { device.fill(slab.data(), 0, slab.size_bytes(), memory.setup_stream); };
  for (const auto& [path, slab] : memory.fixed) clear(slab);
  clear(memory.step_arena);
  for (const auto& [phase, feed] : memory.feeds) clear(feed.slots);
  device.synchronize(memory.setup_stream);
}

void clear_pinned(const JobMemory& memory) {
  const auto clear = [](const PinnedSlab& slab) {
    if (slab.size_bytes() != 0) std::memset(slab.data(), 0, slab.size_bytes());
  };
  for (const auto& [path, slab] : memory.fixed_pinned) clear(slab);
  for (const auto& [phase, feed] : memory.feeds) {
    for (const PinnedSlab& buffer : feed.buffers) clear(buffer);
  }
}

// Nothing may run on memory that is about to be given back.
template <class Use>
void use_or_drain(Device& device, Stream stream, Use use) {
  try {
    use();
  } catch (...) {
    try {
      device.synchronize(stream);
    } catch (const std::exception&) {  // the failure in flight is the one to tell
    }
    throw;
  }
}

std::string differences(const MemoryAccounts& accounts, const MemoryPlan& plan) {
  std::map<std::string, std::uint64_t> measured;
  for (const AccountFigures& row : accounts.figures()) measured[row.path] = row.peak_bytes;
  std::string text;
  for (const PlannedAccount& row : plan.accounts) {
    if (measured[row.path] == row.planned_peak_bytes) continue;
    text += (text.empty() ? "" : "; ") + row.path + ": planned " + std::to_string(row.planned_peak_bytes) +
            " bytes, measured " + std::to_string(measured[row.path]);
  }
  return text;
}

}  // namespace

JobMemory take_memory(std::shared_ptr<Device> device, MemoryAccounts& accounts, const JobNeed& job) {
  const JobNeed full = with_facts(*device, accounts, job);
  JobMemory memory;
  memory.plan = plan_memory(full);
  if (!memory.plan.fits) throw PlanRefused(memory.plan);
  make_accounts(accounts, job, memory.plan);
  for (const FixedNeed& need : job.fixed) {
    const MemoryAccount account = accounts.account(need.path);
    const std::string tag = need.path.substr(need.path.rfind('/') + 1);
    if (is_device_path(need.path)) {
      memory.fixed.emplace(need.path, Slab(device, account, need.bytes, tag));
    } else {
      memory.fixed_pinned.emplace(need.path, PinnedSlab(device, account, need.bytes, tag));
    }
  }
  memory.step_arena = Slab(device, accounts.account("device/step"), memory.plan.step_arena_bytes, "step");
  for (const PhaseNeed& phase : job.phases) memory.feeds.emplace(phase.name, take_feed(device, accounts, phase));
  memory.setup_stream = device->create_stream("preflight");
  clear_pinned(memory);
  use_or_drain(*device, memory.setup_stream, [&] { clear_device(*device, memory); });
  return memory;
}

void prove_plan(Device& device, MemoryAccounts& accounts, const JobNeed& job, JobMemory& memory) {
  accounts.reset_peaks();
  const std::uint64_t allocations = device.allocation_count();
  for (const PhaseNeed& phase : job.phases) {
    const Charge lease = accounts.phase(phase.name).lease(lease_bytes(phase.bytes(phase.batch)), "step");
    if (phase.dry_run) phase.dry_run();
  }
  use_or_drain(device, memory.setup_stream, [&] { clear_device(device, memory); });
  std::string wrong = differences(accounts, memory.plan);
  if (const std::uint64_t more = device.allocation_count() - allocations; more != 0) {
    wrong += (wrong.empty() ? "" : "; ") + std::string("the dry run asked the device for memory ") +
             std::to_string(more) + (more == 1 ? " time" : " times");
  }
  if (!wrong.empty()) {
    throw DeviceError("preflight: the memory plan is not true: " + wrong + "\n" + memory.plan.table() +
                      accounts.table());
  }
}

}  // namespace penstock::gpu
