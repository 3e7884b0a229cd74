// Rows of one batch through maps that run over columns: values are pointers into the source, into scratch, or into the
// batch, and nothing else is kept for a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include <penstock/pipeline/engine/chain.h>
#include <penstock/pipeline/engine/stage_clock.h>
#include <penstock/pipeline/order/order.h>

namespace penstock::engine {

/// What a pass needs for its rows; used again and again by one thread at a time.
struct ColumnScratch {
  std::vector<order::Placed> placed;
  std::vector<const std::byte*> values;  ///< field by field, of each row
  std::vector<std::uint64_t> between;    ///< two sets of values on their way for each field
};

/// A row that failed.
struct ColumnFailure {
  std::size_t row = 0;  ///< of the pass
  std::int32_t stage = 0;
  std::exception_ptr error;
};

/// One pass of at most kMostRows rows.
class ColumnPass {
 public:
  static constexpr std::size_t kMostRows = 256;

  /// `places[field]` is where the batch's field begins for the first row. Time and bytes are added to `totals`.
  ColumnPass(const Chain& chain, ColumnScratch& scratch, std::span<std::byte* const> places,
             std::vector<StageTotals::Total>& totals);
  /// The rows of the source that stand in scratch.placed, in this order.
  void run(std::size_t row_count);
  std::vector<ColumnFailure>& failures() noexcept { return failures_; }

 private:
  using Clock = StageClock::Clock;

  void read(std::size_t field, std::size_t row_count, bool in_sequence);
  void run_maps(std::size_t row, std::size_t end, std::size_t map);
  std::size_t run_map(std::size_t map, std::size_t row, std::size_t end);
  void lap(std::size_t stage, std::size_t rows, std::size_t bytes);

  const Chain& chain_;
  ColumnScratch& scratch_;
  const std::span<std::byte* const> places_;
  std::vector<StageTotals::Total>& totals_;
  std::vector<ColumnFailure> failures_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace penstock::engine
