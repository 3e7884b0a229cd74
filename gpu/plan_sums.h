// What a job takes with any choice of batches, depths and caps. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu::detail {

/// A sum that stays at the largest number, which fits nowhere.
std::uint64_t add(std::uint64_t a, std::uint64_t b) noexcept;
/// True for `root` itself and every path below it.
bool is_below(const std::string& path, const std::string& root);
/// In whole granules of the memory that the path says.
std::uint64_t fixed_bytes(const FixedNeed& need);

/// One way to run a phase: what a suggestion may change.
struct PhaseChoice {
  std::size_t batch;
  std::size_t depth;
  std::size_t pinned_depth;
  std::uint64_t cap_bytes;
  bool absent = false;  ///< as if the phase needed nothing: what the rest of the job needs
};
/// One way to run the job.
struct Choice {
  std::vector<PhaseChoice> phases;
  std::uint64_t device_cap_bytes;
  std::uint64_t pinned_cap_bytes;
};

/// What a phase takes, in whole granules.
struct PhaseSum {
  std::uint64_t ring_bytes = 0;
  std::uint64_t lease_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t used_bytes = 0;  ///< what the phase's cap covers
};
/// What the job takes.
struct Sum {
  std::vector<PhaseSum> phases;
  std::uint64_t arena_bytes = 0;
  std::uint64_t device_bytes = 0;
  std::uint64_t pinned_bytes = 0;
};

/// Sums for the choices of one job; what a phase needs at a batch size is asked for once.
class Planner {
 public:
  /// `job` outlives the planner.
  explicit Planner(const JobNeed& job) : job_(job), known_(job.phases.size()) {}

  /// The job as it stands.
  Choice asked() const;
  Sum sum(const Choice& choice);
  bool fits(const Choice& choice);
  /// The smaller of the cap and what the device can give at all.
  std::uint64_t device_limit(const Choice& choice) const;

 private:
  PhaseSum phase_sum(std::size_t index, const PhaseChoice& choice);
  PhaseBytes bytes_at(std::size_t index, std::size_t batch);

  const JobNeed& job_;
  std::vector<std::unordered_map<std::size_t, PhaseBytes>> known_;  // by phase and batch
};

}  // namespace penstock::gpu::detail
