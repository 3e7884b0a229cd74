// The workers' rows of a trace: rounds of blocks, the stages in them, and reads. Costs a comparison where there is
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline/engine/stage_clock.h>
#include <penstock/pipeline/report/trace.h>

namespace penstock::engine {

/// The stages of one loader, by number: 0 is "read". Safe for concurrent use. Records nothing when it cannot: never
/// throws.
class StageTrace {
 public:
  StageTrace() = default;
  StageTrace(std::shared_ptr<Trace> trace, const std::vector<std::string>& stages);

  bool on() const noexcept { return trace_ != nullptr; }
  /// A round from `begin` to now, whose rows took `stages[s].seconds` in stage s together: a slice for the round, and
  /// in it one for each stage that took time, one after the other. Rows that are measured by sample may seem to have
  /// taken longer than the round; its slice then is as long as they are.
  void round(Trace::Clock::time_point begin, std::span<const StageTotals::Total> stages,
             const TraceAbout& about) const noexcept;
  /// A read that was asked for at `begin` has been answered now.
  void read(Trace::Clock::time_point begin, const TraceAbout& about) const noexcept;

 private:
  std::shared_ptr<Trace> trace_;
  std::uint32_t block_ = 0;
  std::vector<std::uint32_t> stages_;
};

}  // namespace penstock::engine
