// The memory plan: arithmetic over what the phases need, before anything runs. Pure functions; no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <penstock/gpu/memory_accounts.h>

namespace penstock::gpu {

/// What a phase needs at one batch size. Bytes as used, before rounding to granules.
struct PhaseBytes {
  std::uint64_t step_bytes = 0;  ///< of the arena that phases share
  std::uint64_t slot_bytes = 0;  ///< one batch, BatchLayout::size_bytes, in device memory and in a pinned buffer
};

/// A phase of a job. Its account is `device/<name>/ring`; its pinned buffers are `host/pinned/<name>`.
struct PhaseNeed {
  std::string name;  ///< `train`, `val`
  std::size_t batch = 0;
  std::size_t depth = 2;         ///< device slots of its feed, at least 1
  std::size_t pinned_depth = 3;  ///< pinned buffers of its feed, at least 2
  std::uint64_t cap_bytes = kNoCap;
  /// Samples of its set: a larger batch is never full, so none is suggested, and the search for one that fits starts
  /// here.
  std::size_t sample_count = std::numeric_limits<std::size_t>::max();
  /// Bytes at any batch size; called for batches up to `batch` when suggestions are worked out. Need not be monotone.
  std::function<PhaseBytes(std::size_t batch)> bytes;
  /// Runs every unit of the phase once at full size on memory that preflight has cleared, and waits for it. May be
  /// empty.
  std::function<void()> dry_run = {};
};

/// What the step of a phase counts against the phase's cap, and what the phase leases while it runs: whole granules,
/// like everything else that is compared with a cap.
constexpr std::uint64_t lease_bytes(const PhaseBytes& bytes) noexcept {
  return round_up(bytes.step_bytes, kSlabGranule);
}

/// Memory that is there in every state of the job: `device/model` (weights, gradients, optimiser state), or page-locked
/// memory below `host/pinned`: `host/pinned/staging`.
struct FixedNeed {
  std::string path;
  std::uint64_t bytes = 0;
};

/// What a job needs in all its states, and the limits it has to keep.
struct JobNeed {
  std::vector<FixedNeed> fixed = {};
  std::vector<PhaseNeed> phases;
  std::uint64_t device_cap_bytes = kNoCap;
  std::uint64_t pinned_cap_bytes = kNoCap;
  /// What the device can give at all; unlike a cap it cannot be raised. `take_memory` asks the device.
  std::uint64_t device_available_bytes = kNoCap;
  /// Bytes that others have charged already, by account (its own, without its children) or phase; counted as they are.
  /// `take_memory` reads them from the ledger.
  std::vector<FixedNeed> held = {};
};

/// Peak of an account or phase over all states of the job.
struct PlannedAccount {
  std::string path;  ///< account, or phase name
  std::uint64_t planned_peak_bytes = 0;
  std::uint64_t cap_bytes = kNoCap;
};
/// Bytes in one state of the job: `train`, `train->val`, `val`, `val->train`, `checkpoint`. Rings, step arena and fixed
/// memory are taken once and stay, so the states are equal: no change of state asks for memory.
struct PlannedState {
  std::string name;
  std::uint64_t peak_bytes = 0;    ///< of the device
  std::uint64_t pinned_bytes = 0;  ///< page-locked host memory
};
/// What would fit instead, all else unchanged. `knob`: `train batch`, `val depth`, `val pinned depth`, `val cap`,
/// `device cap`, `pinned cap`. Batches and depths are the largest that fit, caps the smallest.
struct Suggestion {
  std::string knob;
  std::uint64_t value = 0;
  std::vector<Suggestion> with;  ///< changes that it takes as well
};

/// What `plan_memory` worked out.
struct MemoryPlan {
  std::vector<PlannedAccount> accounts;  ///< phases first, then accounts by path
  std::vector<PlannedState> states;
  bool fits = true;
  std::string refusal;  ///< when it does not fit: the account, the bytes, the cap, and what would fit, for people
  std::vector<Suggestion> suggestions;
  std::uint64_t step_arena_bytes = 0;  ///< the largest step of all phases, in whole granules
  /// A table for people: a row an account (planned, cap), a row a state.
  std::string table() const;
};

/// Works the plan out. Every slab is in whole granules. Throws InvalidArgument for a job that is no job (no phase,
/// batch 0, depth 0).
MemoryPlan plan_memory(const JobNeed& job);

/// `64MiB`, `1.5GB`, `200000000` -> bytes. Throws InvalidArgument that says what was read and what is expected.
std::uint64_t parse_size(const std::string& text);
/// `1.50 GiB`, rounded to the nearest hundredth.
std::string format_size(std::uint64_t bytes);

}  // namespace penstock::gpu
