// Takes all memory of a job before its first step, proves that the plan is true, and refuses when it is not.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include <penstock/gpu/memory_accounts.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {

/// The plan is refused: `what()` is its refusal. Nothing has been allocated.
class PlanRefused : public InvalidArgument {
 public:
  explicit PlanRefused(MemoryPlan plan) : InvalidArgument(plan.refusal), plan_(std::move(plan)) {}
  const MemoryPlan& plan() const noexcept { return plan_; }

 private:
  MemoryPlan plan_;
};

/// Memory of one phase's feed.
struct FeedMemory {
  Slab slots;                       ///< depth * slot bytes (each rounded to kArenaAlignment), one slab
  std::vector<PinnedSlab> buffers;  ///< pinned_depth buffers
  std::uint64_t slot_bytes = 0;
  std::size_t depth = 0;  ///< slots, one after the other; the slab's last granule may hold room for more
};

/// What preflight took. Move-only; gives all back when it goes.
struct JobMemory {
  MemoryPlan plan;
  std::map<std::string, Slab> fixed;               ///< by path
  std::map<std::string, PinnedSlab> fixed_pinned;  ///< by path, those below host/pinned
  Slab step_arena;                                 ///< account `device/step`
  std::map<std::string, FeedMemory> feeds;         ///< by phase
  Stream setup_stream;                             ///< made once; clears the memory
};

/// Step 1, `take_memory`: plans, checks caps (device cap: the smaller of the job's and what the device has), makes the
/// accounts and caps, allocates every slab and pinned buffer, fills all of it with zeros. Bytes that others have
/// charged are part of the plan. Throws PlanRefused before anything is allocated; DeviceMemoryLimit when the device
/// refuses what the plan allows (all is given back).
JobMemory take_memory(std::shared_ptr<Device> device, MemoryAccounts& accounts, const JobNeed& job);

/// Step 2, `prove_plan`: runs every phase's dry_run under its lease (lease_bytes), zeroes device memory again, and
/// checks that the measured peak of every account and phase equals the planned one and that nothing was allocated on
/// the way. Throws DeviceError with both tables when not.
void prove_plan(Device& device, MemoryAccounts& accounts, const JobNeed& job, JobMemory& memory);

}  // namespace penstock::gpu
