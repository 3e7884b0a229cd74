// A block that runs by columns has one round: nothing is waited for, and nothing is refused.
#include <algorithm>
#include <mutex>
#include <utility>

#include <penstock/pipeline/engine/loader_core.h>

namespace penstock::engine {

void LoaderCore::run_columns(Block& block) {
  const Clock::time_point begin = Clock::now();
  std::unique_ptr<RowWorker> worker = take_worker();
  ColumnScratch& scratch = worker->columns;
  scratch.placed.resize(ColumnPass::kMostRows);
  worker->totals.assign(chain_.maps.size() + 1, {});
  OpenBatch& batch = *block.batch;
  std::vector<std::byte*>& places = worker->column_places;
  places.resize(layout_->fields.size());
  for (std::size_t done = 0; done < block.row_count; done += ColumnPass::kMostRows) {
    if (stopped_.load(std::memory_order_relaxed)) break;
    const std::size_t count = std::min(block.row_count - done, ColumnPass::kMostRows);
    order_.fill_indices(batch.epoch, batch.index * layout_->batch_size + block.first_row + done,
                        {scratch.placed.data(), count});
    for (std::size_t f = 0; f < places.size(); ++f) places[f] = place(block, done, f);
    ColumnPass pass(chain_, scratch, places, worker->totals);
    pass.run(count);
    if (pass.failures().empty()) continue;
    const std::lock_guard lock(mutex_);
    for (ColumnFailure& failure : pass.failures()) {
      batch.failures.push_back({block.first_row + done + failure.row, failure.stage, scratch.placed[failure.row].index,
                                std::move(failure.error)});
    }
  }
  totals_.add(worker->totals);
  trace_.round(begin, worker->totals, block.about());
  give_back(std::move(worker));
  block.done_rows = block.row_count;
  row_cost_.add(block.row_count, Clock::now() - begin);
  end_round(block, 0, 0);
}

}  // namespace penstock::engine
