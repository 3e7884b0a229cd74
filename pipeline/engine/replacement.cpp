// A seed of its own, so that no map draws the same numbers.
#include <penstock/pipeline/engine/replacement.h>

#include <penstock/pipeline/draw.h>

namespace penstock::engine {
namespace {

constexpr std::uint64_t kReplacements = 0x5245504C;

}  // namespace

std::optional<std::uint64_t> replacement_slot(std::uint64_t seed, std::uint64_t epoch, std::uint64_t slot,
                                              std::uint32_t attempt, std::uint64_t slot_count) {
  if (slot_count < 2) return std::nullopt;
  const std::uint64_t other = Draw(mix_lineage(seed, kReplacements), epoch, slot, attempt).below(slot_count - 1);
  return other + (other >= slot ? 1 : 0);
}

}  // namespace penstock::engine
