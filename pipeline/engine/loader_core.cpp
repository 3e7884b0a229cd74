// Opening batches, handing them out, beginning and ending. The rounds of blocks are in block_rounds.cpp, their rows in
// block_rows.cpp.
#include <penstock/pipeline/engine/loader_core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <penstock/pipeline/engine/failure_text.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

Chain make_chain(const Plan& plan) {
  Chain chain(plan);
  if (plan.errors.action == OnError::kReplace) chain.by_columns = false;
  return chain;
}

std::vector<std::string> stage_names(const Chain& chain) {
  std::vector<std::string> names{chain.stage_name(kReadStage)};
  for (const ChainMap& map : chain.maps) names.push_back(map.name);
  return names;
}

// The rows from `row` on, of every field.
void clear_rows(const LentBlock& block, std::size_t row) {
  for (const BatchField& field : block.layout->fields) {
    const std::size_t bytes = (block.layout->batch_size - row) * field.row_stride;
    if (bytes != 0) std::memset(block.lease.data() + field.offset + row * field.row_stride, 0, bytes);
  }
}

std::size_t open_batches(const Plan& plan) {
  const auto* const prefetch = find_stage<PrefetchStage>(plan);
  return std::max<std::size_t>(2, (prefetch ? prefetch->batches : 1) + 1);
}

}  // namespace

LoaderCore::LoaderCore(RuntimeState& runtime, std::shared_ptr<const Plan> plan, const LoaderOptions& options)
    : LoaderEngine(options.priority),
      runtime_(runtime),
      plan_(std::move(plan)),
      options_(options),
      chain_(make_chain(*plan_)),
      layout_(std::make_shared<const BatchLayout>(chain_.layout)),
      shared_order_(std::make_shared<const order::Order>(*plan_->source->size(), plan_->stages, options.seed)),
      order_(*shared_order_),
      open_limit_(open_batches(*plan_)),
      memory_(options.memory),
      reads_limit_(options.reads_in_flight),
      totals_(chain_.maps.size() + 1),
      trace_(options.trace, stage_names(chain_)) {
  const BatchStage& batch = *find_stage<BatchStage>(*plan_);
  const std::uint64_t left = order_.size() % batch.size;
  batches_per_epoch_ = order_.size() / batch.size + (batch.last != LastBatch::kDrop && left != 0 ? 1 : 0);
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
  first_open_limit_ = open_limit_;
  knobs_ = {runtime_.threads(), options_.block_size, open_limit_, options_.reads_in_flight};
}

void LoaderCore::start() {
  if (options_.read_timeout.count() > 0) {
    timed_reads_ = std::make_unique<TimedReads>(plan_->source, options_.read_timeout);
  }
  runtime_.add(shared_from_this());
  memory_->on_free([this] { pump(); });
}

void LoaderCore::stop() {
  std::vector<Block*> parked;
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_seq_cst);
    parked.swap(parked_);
  }
  notify();
  for (WorkItem* const item : runtime_.withdraw(*this)) drop_due(static_cast<Block&>(*item));
  for (Block* const block : parked) drop_due(*block);
}

void LoaderCore::shutdown() {
  stop();
  memory_->on_free({});
  if (timed_reads_) timed_reads_->end();
  std::deque<std::unique_ptr<OpenBatch>> open;
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return active_ == 0; });
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

Position LoaderCore::position() const {
  const std::lock_guard lock(mutex_);
  return position_;
}

LoaderReport LoaderCore::report() const {
  LoaderReport report;
  const std::vector<StageTotals::Total> totals = totals_.get();
  for (std::size_t i = 0; i < totals.size(); ++i) {
    report.stages.push_back({chain_.stage_name(static_cast<std::int32_t>(i) - 1), totals[i].count, totals[i].seconds,
                             totals[i].bytes, totals[i].wait_seconds});
  }
  const std::lock_guard lock(mutex_);
  report.samples = samples_delivered_;
  report.batches = batches_delivered_;
  if (begin_) report.seconds = std::chrono::duration<double>(Clock::now() - *begin_).count();
  if (looks_ > 0) report.ready_share = ready_shares_ / static_cast<double>(looks_);
  report.reads_most = static_cast<std::size_t>(std::max<std::int64_t>(0, reads_most_.load(std::memory_order_relaxed)));
  report.replaced = faults_.replaced();
  report.knobs = knobs_;
  return report;
}

Knobs LoaderCore::knobs() const {
  const std::lock_guard lock(mutex_);
  return knobs_;
}

void LoaderCore::turn(const Knobs& knobs) {
  const std::lock_guard turning(turning_);
  if (knobs.batches_ahead != 0) set_batches_ahead(knobs.batches_ahead);
  {
    const std::lock_guard lock(mutex_);
    if (knobs.block_size != 0) knobs_.block_size = knobs.block_size;
    if (knobs.reads_in_flight != 0) {
      knobs_.reads_in_flight = knobs.reads_in_flight;
      reads_limit_.store(knobs.reads_in_flight, std::memory_order_seq_cst);
      wake_parked_locked();
    }
  }
  pump();
}

// Fewer: what is open is delivered, and no more is opened until there is less. The caller may hold as many batches as
// the plan allows all the same, so the pool never has fewer blocks than at first; it only keeps fewer of them.
void LoaderCore::set_batches_ahead(std::size_t batches) {
  if (!own_pool_) {
    if (batches > memory_->capacity()) {
      throw InvalidArgument("loader: " + std::to_string(batches) + " batches ahead, the batch memory lends " +
                            std::to_string(memory_->capacity()));
    }
  } else {
    own_pool_->resize(std::max(batches, first_open_limit_) + 1, batches + 1, [&] {
      return BudgetShare::reserve(runtime_.budget(), layout_->size_bytes,
                                  "one more batch ahead, " + std::to_string(batches) + " are asked for");
    });
  }
  const std::lock_guard lock(mutex_);
  open_limit_ = batches;
  knobs_.batches_ahead = batches;
  memory_blocks_ = memory_->capacity();
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
      }
      notify();
      if (!starved) return;
      runtime_.trim();  // what rows keep for the next one may be all that is missing
      if (!own_pool_->has_room()) return;
      continue;
    }
    batch->lent = std::make_shared<LentBlock>();
    batch->lent->lease = std::move(*lease);
    if (chain_.by_columns) {
      batch->lent->order = shared_order_;
      batch->lent->epoch = batch->epoch;
      batch->lent->slot = batch->index * layout_->batch_size;
    } else {
      batch->lent->origins.resize(layout_->batch_size);
    }
    batch->lent->layout = layout_;
    batch->lent->source = plan_->source;
    batch->lent->count = lent_count_;

    if (find_stage<BatchStage>(*plan_)->last == LastBatch::kPad) clear_rows(*batch->lent, batch->end_row);

    const std::lock_guard lock(mutex_);
    if (!begin_) begin_ = Clock::now();
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
  std::size_t size = knobs_.block_size;
  if (size == 0) {
    const std::uint64_t remaining = delivered_per_epoch_ - (batch.index * layout_->batch_size + batch.next_row);
    size = block_rows(row_cost_, remaining, layout_->batch_size, runtime_.threads());
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
    block->by_columns = chain_.by_columns && chain_.column_scratch <= options_.max_sample_bytes;
    block->placed = false;
    block->running = false;
    block->parked = false;
    block->one_by_one = false;
    block->done_rows = 0;
    block->spent = {};
    batch.blocks.push_back(std::move(block));
  }
  batch.blocks_begun = batch.blocks.size();
}

bool LoaderCore::epochs_ended() const noexcept { return options_.epoch_count && take_epoch_ >= *options_.epoch_count; }

bool LoaderCore::held_by_caller_locked() const {
  // A memory of the user's own may lend to others as well: then this is not certain, and next() waits.
  return open_.empty() && lease_refused_ && static_cast<std::size_t>(lent_count_.use_count()) >= memory_blocks_ + 1;
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

std::optional<NextResult> LoaderCore::try_take() {
  std::optional<RowFailure> failure;
  std::shared_ptr<Batch::State> state;
  std::unique_ptr<OpenBatch> emptied;  // its memory goes back after the lock
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) throw Stopped("next: the loader was stopped");
    if (epochs_ended()) return NextResult{};
    if (!consumer_waits_.load(std::memory_order_relaxed)) {
      const std::size_t ready = std::min(ready_batches_.load(std::memory_order_relaxed), open_limit_);
      ready_shares_ += static_cast<double>(ready) / static_cast<double>(open_limit_);
      ++looks_;
    }
    if (take_slot_ >= delivered_per_epoch_) {
      ++take_epoch_;
      take_slot_ = 0;
      position_ = {take_epoch_, 0};
      return NextResult{};
    }
    if (open_.empty() || open_.front()->blocks_begun != 0) {
      if (held_by_caller_locked()) return NextResult{std::nullopt, held_error()};
      return std::nullopt;
    }

    OpenBatch& batch = *open_.front();
    const auto bad = std::find_if(batch.failures.begin(), batch.failures.end(),
                                  [&](const RowFailure& other) { return other.row >= batch.next_row; });
    const std::size_t bad_row = bad == batch.failures.end() ? batch.end_row : bad->row;
    std::size_t end = count_replaced_locked(batch, bad_row);
    if (end == batch.next_row && limit_failure_) {
      return NextResult{std::nullopt, error_limit_reached(plan_->errors.limit, limit_failure_->error())};
    }
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
