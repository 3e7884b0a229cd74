// Opening batches, handing them out, beginning and ending. The rounds of blocks are in block_rounds.cpp, their rows in
// block_rows.cpp.
#include <penstock/pipeline/engine/loader_core.h>

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/pipeline/engine/failure_text.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

constexpr int kLooks = 100;
constexpr int kPausesPerLook = 100;

Chain make_chain(const Plan& plan) {
  if (!find_stage<BatchStage>(plan)) throw InvalidArgument("loader: the pipeline has no batch stage; add batch(size)");
  if (!plan.source->size()) {
    throw InvalidArgument("loader: the source does not know how many samples it has; only those that do are loaded");
  }
  return Chain(plan);
}

std::size_t open_batches(const Plan& plan) {
  const auto* const prefetch = find_stage<PrefetchStage>(plan);
  return std::max<std::size_t>(2, (prefetch ? prefetch->batches : 1) + 1);
}

}  // namespace

LoaderCore::LoaderCore(RuntimeState& runtime, std::shared_ptr<const Plan> plan, const LoaderOptions& options)
    : WorkLane(options.priority),
      runtime_(runtime),
      plan_(std::move(plan)),
      options_(options),
      chain_(make_chain(*plan_)),
      layout_(std::make_shared<const BatchLayout>(chain_.layout)),
      order_(*plan_->source->size(), plan_->stages, options.seed),
      open_limit_(open_batches(*plan_)),
      memory_(options.memory),
      totals_(chain_.maps.size() + 1) {
  const BatchStage& batch = *find_stage<BatchStage>(*plan_);
  const std::uint64_t left = order_.size() % batch.size;
  batches_per_epoch_ = order_.size() / batch.size + (batch.last == LastBatch::kKeep && left != 0 ? 1 : 0);
  delivered_per_epoch_ = std::min<std::uint64_t>(order_.size(), batches_per_epoch_ * batch.size);

  Position start = options.start;
  const std::string where =
      "loader: the start, epoch " + std::to_string(start.epoch) + " slot " + std::to_string(start.slot);
  if (start.slot > order_.size()) {
    throw InvalidArgument(where + ", lies beyond the end: an epoch has " + std::to_string(order_.size()) + " slots");
  }
  if (start.slot != 0 && start.slot >= delivered_per_epoch_) start = {start.epoch + 1, 0};
  if (options.epoch_count && start.epoch > *options.epoch_count) {
    throw InvalidArgument(where + ", lies beyond the end: there are " + std::to_string(*options.epoch_count) +
                          " epochs");
  }
  fill_epoch_ = take_epoch_ = start.epoch;
  fill_slot_ = take_slot_ = start.slot;
  position_ = start;

  if (memory_) {
    if (memory_->capacity() == 0) throw InvalidArgument("loader: the batch memory lends 0 blocks");
    open_limit_ = std::min(open_limit_, memory_->capacity());
  }
  const std::string sample = "the largest sample, " + std::to_string(options.max_sample_bytes);
  if (memory_) {
    share_ = BudgetShare::reserve(runtime_.budget(), options.max_sample_bytes, sample);
  } else {
    const std::size_t blocks = open_limit_ + 1;
    std::uint64_t batches_bytes = 0;
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(blocks, layout_->size_bytes, &batches_bytes) ||
        __builtin_add_overflow(batches_bytes, options.max_sample_bytes, &total)) {
      throw InvalidArgument("loader: its batches take more bytes than can be counted");
    }
    share_ = BudgetShare::reserve(runtime_.budget(), total,
                                  std::to_string(open_limit_) + " open batches and one in the caller's hands, " +
                                      std::to_string(blocks) + " x " + std::to_string(layout_->size_bytes) + " = " +
                                      std::to_string(batches_bytes) + ", and " + sample);
    own_pool_ = std::make_shared<RecycledPool>(share_, layout_->size_bytes, blocks);
    memory_ = own_pool_;
  }
  memory_blocks_ = memory_->capacity();
}

void LoaderCore::start() {
  runtime_.add(shared_from_this());
  memory_->on_free([this] { pump(); });
}

void LoaderCore::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_seq_cst);
    wake_.notify_all();
  }
  for (Block* const block : runtime_.withdraw(*this)) drop(*block);
}

void LoaderCore::shutdown() {
  stop();
  memory_->on_free({});
  std::deque<std::unique_ptr<OpenBatch>> open;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return active_ == 0; });
    open.swap(open_);
    starved_.clear();
    pool_starved_ = false;
    set_starving_locked(false);
  }
  for (const std::unique_ptr<OpenBatch>& batch : open) {
    for (const std::unique_ptr<Block>& block : batch->blocks) {
      if (!block->answers) continue;
      const MutexLock lock(block->answers->mutex);
      block->answers->block = nullptr;
    }
  }
  runtime_.remove(*this);
  open.clear();
  trim();
  runtime_.room_freed();
}

Position LoaderCore::position() const noexcept {
  const std::lock_guard lock(mutex_);
  return position_;
}

LoaderReport LoaderCore::report() const {
  LoaderReport report;
  const std::vector<StageTotals::Total> totals = totals_.get();
  for (std::size_t i = 0; i < totals.size(); ++i) {
    report.stages.push_back({chain_.stage_name(static_cast<std::int32_t>(i) - 1), totals[i].count, totals[i].seconds});
  }
  const std::lock_guard lock(mutex_);
  report.samples = samples_delivered_;
  report.batches = batches_delivered_;
  report.wait_seconds = wait_seconds_;
  return report;
}

// Opening batches. Whoever asks while somebody is at it leaves the work to him: so the memory is asked in order and
// with no lock held, and its on_free callback never waits.
void LoaderCore::pump() {
  if (pump_requests_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  std::uint32_t seen = 1;
  do {
    fill();
    const std::uint32_t before = pump_requests_.fetch_sub(seen, std::memory_order_acq_rel);
    seen = before - seen;
  } while (seen != 0);
}

std::unique_ptr<OpenBatch> LoaderCore::describe_next_batch() {
  const std::lock_guard lock(mutex_);
  lease_refused_ = false;
  if (stopped_ || open_.size() >= open_limit_ || delivered_per_epoch_ == 0) return nullptr;
  if (options_.epoch_count && fill_epoch_ >= *options_.epoch_count) return nullptr;
  auto batch = std::make_unique<OpenBatch>();
  const std::uint64_t size = layout_->batch_size;
  batch->epoch = fill_epoch_;
  batch->index = fill_slot_ / size;
  const std::uint64_t first = batch->index * size;
  batch->next_row = static_cast<std::size_t>(fill_slot_ - first);
  batch->end_row = static_cast<std::size_t>(std::min(delivered_per_epoch_ - first, size));
  return batch;
}

void LoaderCore::fill() {
  while (std::unique_ptr<OpenBatch> batch = describe_next_batch()) {
    std::optional<BatchLease> lease = memory_->try_acquire(*layout_, batch->epoch * batches_per_epoch_ + batch->index);
    if (!lease) {
      bool starved = false;
      {
        const std::lock_guard lock(mutex_);
        lease_refused_ = true;
        starved = own_pool_ && !own_pool_->all_lent() && !stopped_;
        if (starved) {
          pool_starved_ = true;
          set_starving_locked(true);
        }
        wake_.notify_all();
      }
      if (!starved) return;
      runtime_.trim();  // what rows keep for the next one may be all that is missing
      if (!share_->has_guaranteed_room(layout_->size_bytes)) return;
      continue;
    }
    batch->lent = std::make_shared<LentBlock>();
    batch->lent->lease = std::move(*lease);
    batch->lent->origins.resize(layout_->batch_size);
    batch->lent->layout = layout_;
    batch->lent->source = plan_->source;
    batch->lent->count = lent_count_;

    const std::lock_guard lock(mutex_);
    cut_into_blocks(*batch);
    fill_slot_ = batch->index * layout_->batch_size + batch->end_row;
    if (fill_slot_ >= delivered_per_epoch_) {
      ++fill_epoch_;
      fill_slot_ = 0;
    }
    open_.push_back(std::move(batch));
    if (stopped_) return;
    for (const std::unique_ptr<Block>& block : open_.back()->blocks) {
      ++active_;
      runtime_.submit(*this, *block);
    }
  }
}

void LoaderCore::cut_into_blocks(OpenBatch& batch) {
  std::size_t size = options_.block_size;
  if (size == 0) {
    const std::uint64_t remaining = delivered_per_epoch_ - (batch.index * layout_->batch_size + batch.next_row);
    const std::uint64_t share = std::max<std::uint64_t>(1, remaining / (4 * runtime_.threads()));
    size = static_cast<std::size_t>(std::min<std::uint64_t>(layout_->batch_size, share));
  }
  for (std::size_t row = batch.next_row; row < batch.end_row; row += size) {
    std::unique_ptr<Block> block;
    if (spare_blocks_.empty()) {
      block = std::make_unique<Block>();
    } else {
      block = std::move(spare_blocks_.back());
      spare_blocks_.pop_back();
    }
    block->core = this;
    block->batch = &batch;
    block->sequence = next_sequence_++;
    block->first_row = row;
    block->row_count = std::min(size, batch.end_row - row);
    block->placed = false;
    block->running = false;
    block->one_by_one = false;
    block->done_rows = 0;
    batch.blocks.push_back(std::move(block));
  }
  batch.blocks_begun = batch.blocks.size();
}

bool LoaderCore::epochs_ended() const noexcept { return options_.epoch_count && take_epoch_ >= *options_.epoch_count; }

bool LoaderCore::held_by_caller_locked() const {
  // A memory of the user's own may lend to others as well: then this is not certain, and next() waits.
  return open_.empty() && lease_refused_ && static_cast<std::size_t>(lent_count_.use_count()) == memory_blocks_ + 1;
}

std::exception_ptr LoaderCore::held_error() const {
  const std::string blocks = std::to_string(memory_blocks_);
  const std::string bytes = std::to_string(layout_->size_bytes);
  return std::make_exception_ptr(BudgetHeldByCaller(
      "next: all " + blocks + " batches of this loader are held by the caller (" + blocks + " x " + bytes + " = " +
      std::to_string(memory_blocks_ * layout_->size_bytes) + " bytes), none is left to be filled; let one go, or " +
      (own_pool_ ? "ask for more with prefetch(" + std::to_string(open_limit_) + ")"
                 : std::string("let the batch memory lend more"))));
}

std::exception_ptr LoaderCore::sample_error(const RowFailure& failure) const {
  FailureText text = failure_text(failure.error);
  std::string source;
  try {
    source = plan_->source->describe(failure.index);
  } catch (...) {
    text.detail +=
        " (and the source cannot describe the sample: " + failure_text(std::current_exception()).detail + ")";
  }
  return std::make_exception_ptr(SampleError(text.kind, chain_.stage_name(failure.stage), failure.index,
                                             std::move(source), text.detail, failure.error));
}

// A batch that is nearly ready is worth a few microseconds of looking: going to sleep and being woken takes longer.
void LoaderCore::look_out() const noexcept {
  for (int look = 0; look < kLooks && ready_batches_.load(std::memory_order_acquire) == 0; ++look) {
    if (stopped_.load(std::memory_order_relaxed)) return;
    for (int pause = 0; pause < kPausesPerLook; ++pause) std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

std::optional<NextResult> LoaderCore::take(bool wait, const std::stop_token& token) {
  const std::stop_callback on_stop(token, [this] {
    const std::lock_guard lock(mutex_);
    wake_.notify_all();
  });
  pump();
  std::optional<RowFailure> failure;
  std::shared_ptr<Batch::State> state;
  std::unique_ptr<OpenBatch> emptied;  // its memory goes back after the lock
  {
    std::unique_lock lock(mutex_);
    std::optional<StageClock::Clock::time_point> wait_begin;
    const auto stop_waiting = [&] {
      if (!wait_begin) return;
      consumer_waits_.store(false, std::memory_order_relaxed);
      wait_seconds_ += std::chrono::duration<double>(StageClock::Clock::now() - *wait_begin).count();
    };
    for (;;) {
      if (stopped_) {
        stop_waiting();
        throw Stopped("next: the loader was stopped");
      }
      if (epochs_ended()) return NextResult{};
      if (take_slot_ >= delivered_per_epoch_) {
        ++take_epoch_;
        take_slot_ = 0;
        position_ = {take_epoch_, 0};
        return NextResult{};
      }
      if (!open_.empty() && open_.front()->blocks_begun == 0) break;
      if (held_by_caller_locked()) {
        stop_waiting();
        return NextResult{std::nullopt, held_error()};
      }
      if (!wait) return std::nullopt;
      if (token.stop_requested()) {
        stop_waiting();
        throw Stopped("next: a stop was requested while it waited");
      }
      if (!wait_begin) {
        wait_begin = StageClock::Clock::now();
        consumer_waits_.store(true, std::memory_order_relaxed);
        lock.unlock();
        look_out();
        lock.lock();
        continue;
      }
      wake_.wait(lock);
    }
    stop_waiting();

    OpenBatch& batch = *open_.front();
    const auto bad = std::find_if(batch.failures.begin(), batch.failures.end(),
                                  [&](const RowFailure& other) { return other.row >= batch.next_row; });
    std::size_t end = bad == batch.failures.end() ? batch.end_row : bad->row;
    if (end == batch.next_row) {
      failure = *bad;
      ++end;
    } else {
      state = std::make_shared<Batch::State>();
      state->block = batch.lent;
      state->first_row = batch.next_row;
      state->row_count = end - batch.next_row;
      state->epoch = batch.epoch;
      state->index = batch.index;
    }
    batch.next_row = end;
    take_slot_ = batch.index * layout_->batch_size + end;
    if (state) {
      state->position =
          take_slot_ >= delivered_per_epoch_ ? Position{batch.epoch + 1, 0} : Position{batch.epoch, take_slot_};
      position_ = state->position;
      samples_delivered_ += state->row_count;
      ++batches_delivered_;
    }
    if (batch.next_row == batch.end_row) {
      emptied = std::move(open_.front());
      open_.pop_front();
      ready_batches_.fetch_sub(1, std::memory_order_relaxed);
      for (std::unique_ptr<Block>& block : emptied->blocks) spare_blocks_.push_back(std::move(block));
    }
  }
  const bool credit = emptied != nullptr;
  emptied.reset();
  if (credit) pump();
  if (failure) return NextResult{std::nullopt, sample_error(*failure)};
  return NextResult{Batch(std::move(state)), nullptr};
}

}  // namespace penstock::engine
