// A round of a block: begin what can begin, run what has been read, and leave the rest for the next round.
#include <algorithm>
#include <mutex>
#include <utility>

#include <penstock/pipeline/engine/begin_scope.h>
#include <penstock/pipeline/engine/loader_core.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {

Charge LoaderCore::charge(std::uint64_t bytes) {
  const auto ask = [&] {
    Charge charge = share_->try_guaranteed(bytes);
    return charge ? std::move(charge) : share_->try_shared(bytes);
  };
  if (Charge charge = ask()) return charge;
  runtime_.trim();
  return ask();
}

void LoaderCore::run(Block& block) {
  if (stopped_.load(std::memory_order_relaxed)) {
    drop_due(block);
  } else if (block.parked) {
    block.parked = false;
    begin_rows(block, Clock::now());
  } else if (block.by_columns) {
    run_columns(block);
  } else if (block.running) {
    run_round(block);
  } else {
    begin_round(block);
  }
}

void LoaderCore::begin_round(Block& block) {
  const Clock::time_point begin = Clock::now();
  if (!block.placed) {
    block.placed = true;
    const std::size_t count = block.row_count;
    if (block.rows.size() < count) {
      block.rows.resize(count);
      block.cells.resize(count * chain_.source_fields);
    }
    std::vector<order::Placed> placed(count);
    const OpenBatch& batch = *block.batch;
    order_.fill(batch.epoch, batch.index * layout_->batch_size + block.first_row, placed);
    for (std::size_t i = 0; i < count; ++i) {
      BlockRow& row = block.rows[i];
      row.block = &block;
      row.number = static_cast<std::uint32_t>(i);
      row.state = RowState::kTodo;
      row.placed = placed[i];
      row.error = nullptr;
      row.replaced.reset();
      if (chain_.store && !row.cache) row.cache = std::make_unique<RowCache>();
      batch.lent->origins[block.first_row + i] = {0, placed[i].index};
    }
  }
  if (block.answers) take_answers(block);
  block.answers_due.store(1, std::memory_order_relaxed);
  block.inline_settled = 0;
  block.begun = 0;
  block.begin_at = 0;
  block.reads_due.store(static_cast<std::uint32_t>(block.row_count) + 1, std::memory_order_relaxed);
  begin_rows(block, begin);
}

// Begins the rows that are due, or goes on with it after the block has been parked for want of reads; until all have
// begun, answers can not complete the round.
void LoaderCore::begin_rows(Block& block, Clock::time_point begin) {
  const std::size_t count = block.row_count;
  const bool limited = reads_limit_.load(std::memory_order_relaxed) != 0;
  const bool stamp = trace_.on() || reads_wait_.load(std::memory_order_relaxed);
  const std::uint32_t begun_before = block.begun;
  const std::uint32_t inline_before = block.inline_settled;
  bool parked = false;
  {
    const BeginScope scope(block);
    const std::size_t most = block.one_by_one ? 1 : count;
    for (std::size_t& i = block.begin_at; i < count && block.begun < most; ++i) {
      if (stopped_.load(std::memory_order_relaxed)) break;
      BlockRow& row = block.rows[i];
      if (row.state != RowState::kTodo) continue;
      if (limited && !try_begin_read(block)) {
        parked = true;
        break;
      }
      if (chain_.store && !look_up(row)) {
        if (limited) end_read();
        continue;
      }
      row.state = RowState::kReading;
      row.source_bytes = 0;
      row.asked = stamp ? Clock::now() : begin;
      ++block.begun;
      const std::uint32_t settled_before = block.inline_settled;
      try {
        if (timed_reads_) {
          timed_reads_->read(row, runtime_.files());
        } else {
          plan_->source->read(row.placed.index, row, runtime_.files());
        }
      } catch (...) {
        // A source that breaks its promise not to throw: nothing may leave a body of the graph.
        if (row.state == RowState::kReading) row.fail(std::current_exception());
      }
      if (limited && block.inline_settled != settled_before) end_read();
    }
  }
  const std::uint32_t begun = block.begun - begun_before;
  const std::uint32_t answered = block.inline_settled - inline_before;
  if (!limited && begun != answered) count_reads(begun - answered);
  const Clock::duration spent = Clock::now() - begin;
  block.spent += spent;
  block.reads.count += begun;
  block.reads.seconds += std::chrono::duration<double>(spent).count();
  if (trace_.on()) trace_.round(begin, {&block.reads, 1}, block.about());

  if (parked) {
    park(block);
  } else if (all_begun(block)) {
    block.running = true;
    run_round(block);
  }
}

// No more rows will begin in this round: whether all that have begun are answered.
bool LoaderCore::all_begun(Block& block) {
  const std::uint32_t settled = 1 + (static_cast<std::uint32_t>(block.row_count) - block.begun) + block.inline_settled;
  return block.reads_due.fetch_sub(settled, std::memory_order_acq_rel) == settled;
}

// What the rows waited for has ended. A load that failed for its owner fails here with the same stage and cause.
void LoaderCore::take_answers(Block& block) {
  for (std::size_t i = 0; i < block.row_count; ++i) {
    if (block.rows[i].state == RowState::kWaiting) block.rows[i].state = RowState::kTodo;
  }
  const MutexLock lock(block.answers->mutex);
  for (auto& [number, error] : block.answers->failures) {
    BlockRow& row = block.rows[number];
    row.state = RowState::kFailed;
    row.failed_stage = kReadStage;
    row.error = error;
    try {
      std::rethrow_exception(error);
    } catch (const SampleError& failure) {
      row.failed_stage = chain_.stage_number(failure.stage());
      if (failure.cause()) row.error = failure.cause();
    } catch (...) {
      // Another user of the store gave a reason of its own: it stands as it is.
    }
  }
  block.answers->failures.clear();
}

// True when the row is to be read.
bool LoaderCore::look_up(BlockRow& row) {
  Block& block = *row.block;
  RowCache& cache = *row.cache;
  try {
    cache.key = chain_.keys.key(plan_->source->fingerprint(row.placed.index));
  } catch (...) {
    row.error = std::current_exception();
    row.failed_stage = kReadStage;
    row.state = RowState::kFailed;
    return false;
  }
  if (!block.answers) block.answers = std::make_shared<CacheAnswers>(&block);
  // Counted before the store can call back.
  block.answers_due.fetch_add(1, std::memory_order_relaxed);
  const Lookup found = chain_.store->begin(
      cache.key, cache.hit, [answers = block.answers, number = row.number](const std::exception_ptr& error) {
        const MutexLock lock(answers->mutex);
        if (!answers->block) return;
        if (error) answers->failures.emplace_back(number, error);
        answers->block->core->answered(*answers->block);
      });
  if (found == Lookup::kPending) {
    row.state = RowState::kWaiting;
    return false;
  }
  block.answers_due.fetch_sub(1, std::memory_order_relaxed);
  cache.owned = found == Lookup::kOwner;
  if (cache.owned) return true;
  row.state = RowState::kHit;
  return false;
}

void LoaderCore::answered(Block& block) {
  if (block.answers_due.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  ++active_;
  runtime_.submit(*this, block);
}

void LoaderCore::reads_complete(Block& block) {
  block.running = true;
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      runtime_.submit(*this, block);
      return;
    }
  }
  drop(block);
}

void LoaderCore::run_round(Block& block) {
  std::unique_ptr<RowWorker> worker = take_worker();
  if (block.one_by_one) worker->buffers.release();
  StageClock clock(chain_.maps.size());
  const Clock::time_point begin = Clock::now();
  std::size_t refused = 0;
  std::size_t waiting = 0;
  for (std::size_t i = 0; i < block.row_count; ++i) {
    if (stopped_.load(std::memory_order_relaxed)) break;
    BlockRow& row = block.rows[i];
    if (row.state == RowState::kDone || row.state == RowState::kTodo) continue;
    if (row.state == RowState::kWaiting) {
      ++waiting;
      continue;
    }
    if (row.state == RowState::kFailed) {
      fail_row(row, row.failed_stage, row.error);
    } else if (row.state == RowState::kRead || row.state == RowState::kHit) {
      block.reads.bytes += row.state == RowState::kRead ? row.source_bytes : 0;
      run_row(row, *worker, clock);
    }
    if (row.state == RowState::kRefused) {
      if (refused++ == 0) block.wanted_bytes = row.wanted_bytes;
      put_back(row);
    } else if (row.state != RowState::kTodo) {  // which a row has become whose sample is replaced
      ++block.done_rows;
    }
  }
  worker->totals.assign(chain_.maps.size() + 1, {});
  clock.add_to(worker->totals);
  trace_.round(begin, worker->totals, block.about());
  worker->totals[0] = std::exchange(block.reads, {});
  worker->totals[0].wait_seconds = 1e-9 * static_cast<double>(block.wait_ns.exchange(0, std::memory_order_relaxed));
  totals_.add(worker->totals);
  give_back(std::move(worker));
  block.spent += Clock::now() - begin;
  if (block.done_rows == block.row_count) row_cost_.add(block.row_count, block.spent);
  end_round(block, refused, waiting);
}

void LoaderCore::end_round(Block& block, std::size_t refused, std::size_t waiting) {
  if (stopped_.load(std::memory_order_relaxed)) {
    drop(block);
    return;
  }
  // The last access to this object may be the end of the lock: a loader that is being destroyed waits for it.
  RuntimeState& runtime = runtime_;
  {
    const std::lock_guard lock(mutex_);
    block.running = false;
    block.one_by_one = refused > 0;
    if (block.done_rows == block.row_count) {
      finish_locked(block);
    } else if (stopped_) {
      leave_locked();
    } else if (waiting > 0) {
      if (block.answers_due.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        runtime.submit(*this, block);
      } else {
        leave_locked();
      }
    } else if (refused > 0) {
      const auto at = std::find_if(starved_.begin(), starved_.end(),
                                   [&](const Block* other) { return other->sequence > block.sequence; });
      starved_.insert(at, &block);
      set_starving_locked(true);
      wake_starved_locked();
      leave_locked();
    } else {
      runtime.submit(*this, block);
    }
  }
  runtime.room_freed();
}

void LoaderCore::finish_locked(Block& block) {
  OpenBatch& batch = *block.batch;
  for (std::size_t i = 0; i < block.row_count && !block.by_columns; ++i) {
    BlockRow& row = block.rows[i];
    if (row.replaced) {
      batch.replaced.push_back({block.first_row + i, row.placed.index, std::move(row.replaced->failures)});
      row.replaced.reset();
    }
    if (!row.error) continue;
    batch.failures.push_back({block.first_row + i, row.failed_stage, row.placed.index, std::move(row.error)});
    row.error = nullptr;
  }
  if (--batch.blocks_begun == 0) {
    std::sort(batch.failures.begin(), batch.failures.end(),
              [](const RowFailure& a, const RowFailure& b) { return a.row < b.row; });
    std::sort(batch.replaced.begin(), batch.replaced.end(),
              [](const ReplacedRow& a, const ReplacedRow& b) { return a.row < b.row; });
    ready_batches_.fetch_add(1, std::memory_order_relaxed);
    if (&batch == open_.front().get()) notify();
  }
  wake_starved_locked();
  leave_locked();
}

// One block left the rounds.
void LoaderCore::leave_locked() {
  if (--active_ == 0 && stopped_) idle_.notify_all();
}

void LoaderCore::set_starving_locked(bool starving) {
  if (starving_.exchange(starving, std::memory_order_seq_cst) != starving) runtime_.count_starving(starving ? 1 : -1);
}

void LoaderCore::wake_starved_locked() {
  if (starved_.empty() || stopped_) return;
  trim();
  std::uint64_t wanted = 0;
  while (!starved_.empty()) {
    Block& oldest = *starved_.front();
    wanted += oldest.wanted_bytes;
    if (!share_->has_room(wanted)) break;
    starved_.erase(starved_.begin());
    ++active_;
    runtime_.submit(*this, oldest);
  }
  set_starving_locked(!starved_.empty() || pool_starved_);
}

void LoaderCore::room_freed() {
  bool pool_waits = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    wake_starved_locked();
    pool_waits = std::exchange(pool_starved_, false);
    set_starving_locked(!starved_.empty());
  }
  if (pool_waits) pump();
}

// The loader was stopped before the block's turn came.
void LoaderCore::drop_due(Block& block) {
  if (std::exchange(block.parked, false) && !all_begun(block)) return;
  drop(block);
}

void LoaderCore::drop(Block& block) {
  for (std::size_t i = 0; block.placed && i < block.row_count; ++i) {
    if (block.rows[i].state != RowState::kDone) put_back(block.rows[i]);
  }
  const std::lock_guard lock(mutex_);
  leave_locked();
}

std::unique_ptr<RowWorker> LoaderCore::take_worker() {
  {
    const MutexLock lock(workers_mutex_);
    if (!workers_.empty()) {
      std::unique_ptr<RowWorker> worker = std::move(workers_.back());
      workers_.pop_back();
      return worker;
    }
  }
  auto worker =
      std::make_unique<RowWorker>([this](std::uint64_t bytes) { return charge(bytes); }, options_.max_sample_bytes);
  for (const BatchField& field : layout_->fields) worker->places.push_back({nullptr, field.row_bytes});
  return worker;
}

void LoaderCore::give_back(std::unique_ptr<RowWorker> worker) {
  if (starving_.load(std::memory_order_seq_cst)) worker->buffers.release();
  const MutexLock lock(workers_mutex_);
  workers_.push_back(std::move(worker));
}

void LoaderCore::trim() {
  const MutexLock lock(workers_mutex_);
  for (const std::unique_ptr<RowWorker>& worker : workers_) worker->buffers.release();
}

}  // namespace penstock::engine
