// Policy replace: a row that failed becomes one that has not begun, of another sample. It keeps its slot's lineage, and
// so its draws; everything else, the cache key and the origin too, is the other sample's.
#include <algorithm>
#include <utility>

#include <penstock/pipeline/engine/loader_core.h>
#include <penstock/pipeline/engine/replacement.h>

namespace penstock::engine {

// Unless none is found: then the row has failed for good, with its first failure.
void LoaderCore::replace_row(BlockRow& row) {
  if (plan_->errors.action != OnError::kReplace) return;
  if (!row.replaced) row.replaced = std::make_unique<RowReplaced>();
  RowReplaced& replaced = *row.replaced;
  if (replaced.failures.empty()) {
    replaced.first_stage = row.failed_stage;
    replaced.first_index = row.placed.index;
    replaced.first_error = row.error;
  }
  replaced.failures.push_back(describe_failure(chain_.stage_name(row.failed_stage), row.placed.index,
                                               plan_->source.get(), std::exchange(row.error, nullptr)));
  const OpenBatch& batch = *row.block->batch;
  const std::size_t place = row.block->first_row + row.number;
  const std::uint64_t slot = batch.index * layout_->batch_size + place;
  while (replaced.attempts < kMostReplacements) {
    const auto other = replacement_slot(options_.seed, batch.epoch, slot, replaced.attempts++, order_.size());
    if (!other) break;
    order::Placed placed;
    order_.fill_indices(batch.epoch, *other, {&placed, 1});
    const auto failed = [&](const SampleFailure& failure) { return failure.index == placed.index; };
    if (std::any_of(replaced.failures.begin(), replaced.failures.end(), failed)) continue;
    row.placed.index = placed.index;
    row.state = RowState::kTodo;
    batch.lent->origins[place] = {0, placed.index};
    return;
  }
  row.failed_stage = replaced.first_stage;
  row.placed.index = replaced.first_index;
  row.error = std::move(replaced.first_error);
  batch.lent->origins[place] = {0, row.placed.index};
  row.replaced.reset();
}

// The batch delivers rows [next_row, end): counts those that stand in for others, one by one. The first beyond the
// limit ends the run there: gives its row, or `end`.
std::size_t LoaderCore::count_replaced_locked(OpenBatch& batch, std::size_t end) {
  for (const ReplacedRow& at : batch.replaced) {
    if (at.row < batch.next_row) continue;
    if (at.row >= end) break;
    if (plan_->errors.limit - replaced_ < at.failures.size()) {
      const SampleFailure& last = at.failures[static_cast<std::size_t>(plan_->errors.limit - replaced_)];
      limit_failure_ = last;
      return at.row;
    }
    replaced_ += at.failures.size();
    for (const SampleFailure& failure : at.failures) faults_.add(failure.fault(batch.epoch, batch.index, at.index));
  }
  return end;
}

}  // namespace penstock::engine
