// What would fit instead of a job that does not. Not for users.
#pragma once

#include <vector>

#include <penstock/gpu/memory_plan.h>
#include <penstock/gpu/plan_sums.h>

namespace penstock::gpu::detail {

/// Choices near the one asked for, which does not fit; each has been worked out in full and fits. `planner` is of
/// `job`.
std::vector<Suggestion> suggest(const JobNeed& job, Planner& planner);

}  // namespace penstock::gpu::detail
