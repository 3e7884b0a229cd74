// Which sample stands in for one that failed.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::engine {

/// The most samples that are tried in the place of one; when all fail, the first failure is thrown.
inline constexpr std::uint32_t kMostReplacements = 8;

/// The slot whose sample is tried as number `attempt` (from 0) for slot `slot` of the `slot_count` slots of this rank's
/// order of `epoch`: so every rank takes from its own part. Never `slot` itself; nothing when it is the only one. A
/// function of its arguments alone: Philox keyed by the seed and counted by epoch, slot and attempt.
std::optional<std::uint64_t> replacement_slot(std::uint64_t seed, std::uint64_t epoch, std::uint64_t slot,
                                              std::uint32_t attempt, std::uint64_t slot_count);

}  // namespace penstock::engine
