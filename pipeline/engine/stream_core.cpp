// Beginning, ending, and handing out. The turns are in stream_turns.cpp.
#include <penstock/pipeline/engine/stream_core.h>

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

std::size_t open_batches(const Plan& plan) {
  const auto* const prefetch = find_stage<PrefetchStage>(plan);
  return std::max<std::size_t>(2, (prefetch ? prefetch->batches : 1) + 1);
}

std::string products(std::size_t count, std::uint64_t bytes) {
  return std::to_string(count) + " x " + std::to_string(bytes);
}

std::uint64_t checked_product(std::size_t count, std::uint64_t bytes) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product)) {
    throw InvalidArgument("loader: its batches take more bytes than can be counted");
  }
  return product;
}

// Where a batch's size is known only when it is there, it is a sample like any other.
std::uint64_t most_batch_bytes(const BatchForm& form, std::uint64_t max_sample_bytes) {
  if (form.rows) return form.layout->size_bytes;
  const std::uint64_t alignment = form.layout->fields.size() * kMemoryAlignment;
  return max_sample_bytes > std::uint64_t(-1) - alignment ? std::uint64_t(-1) : max_sample_bytes + alignment;
}

}  // namespace

StreamCore::StreamCore(RuntimeState& runtime, std::shared_ptr<const Plan> plan, const LoaderOptions& options,
                       const MakeRoot& make_root)
    : LoaderEngine(options.priority),
      runtime_(runtime),
      plan_(std::move(plan)),
      options_(options),
      form_(batch_form(*plan_)),
      most_batch_bytes_(most_batch_bytes(form_, options.max_sample_bytes)),
      open_limit_(open_batches(*plan_)),
      turn_(std::make_shared<StreamTurn>(runtime, *this, [this] { return run_turn(); })),
      context_{.runtime = runtime, .lane = *this, .seed = options.seed, .max_sample_bytes = options.max_sample_bytes} {
  batches_per_epoch_ = plan_->errors.action == OnError::kSkip ? std::nullopt : element_count(*plan_);
  if (form_.least_batches != 0) batches_per_epoch_ = form_.least_batches;
  if (options.read_timeout.count() != 0) {
    throw InvalidArgument(
        "loader: LoaderOptions::read_timeout needs a flat plan: one source with a size, stages of order, maps, one "
        "batch");
  }
  check_start(options.start);
  reserve_memory();
  make_operators(make_root);
  knobs_ = {runtime_.threads(), options_.block_size, open_limit_, options_.reads_in_flight};
}

StreamCore::~StreamCore() = default;

void StreamCore::check_start(Position start) {
  const std::string where =
      "loader: the start, epoch " + std::to_string(start.epoch) + " slot " + std::to_string(start.slot);
  if (options_.epoch_count && start.epoch > *options_.epoch_count) {
    throw InvalidArgument(where + ", lies beyond the end: there are " + std::to_string(*options_.epoch_count) +
                          " epochs");
  }
  if (form_.all_elements && form_.rows && start.slot > *form_.all_elements) {
    throw InvalidArgument(where + ", lies beyond the end: an epoch has " + std::to_string(*form_.all_elements) +
                          " slots");
  }
  if (start.slot != 0 && !start.cursor) {
    throw InvalidArgument(where +
                          ", has no cursor: where the stages of this plan stand cannot be worked out from a "
                          "slot; start with Batch::position() or what read_state has read");
  }
  if (start.cursor && !start.cursor->unsaved_stage.empty()) {
    throw InvalidArgument(where + ": the state of \"" + start.cursor->unsaved_stage + "\" has not been saved");
  }
  pull_epoch_ = take_epoch_ = start.epoch;
  position_ = std::move(start);
}

void StreamCore::reserve_memory() {
  if (options_.memory && !form_.rows) {
    throw InvalidArgument("loader: the batches that \"" + form_.stage +
                          "\" makes are not all of one layout, so they cannot be written into LoaderOptions::memory; "
                          "leave it empty");
  }
  if (options_.memory) {
    memory_ = options_.memory;
    if (memory_->capacity() == 0) throw InvalidArgument("loader: the batch memory lends 0 blocks");
    open_limit_ = std::min(open_limit_.load(), memory_->capacity());
  } else {
    const std::size_t blocks = open_limit_ + 1;
    const std::uint64_t bytes = checked_product(blocks, most_batch_bytes_);
    std::shared_ptr<BudgetShare> share = BudgetShare::reserve(
        runtime_.budget(), bytes,
        std::to_string(open_limit_) + " open batches and one in the caller's hands, " +
            products(blocks, most_batch_bytes_) +
            (form_.rows ? std::string()
                        : " (batches of \"" + form_.stage + "\" may be as large as LoaderOptions::max_sample_bytes)"));
    own_blocks_ = std::make_shared<BatchBlocks>(std::move(share), blocks);
    memory_ = own_blocks_;
  }
  if (keeps_elements(*plan_)) {
    context_.kept = std::make_shared<KeptBytes>(
        BudgetShare::reserve(runtime_.budget(), options_.kept_bytes,
                             "what its stages keep, " + std::to_string(options_.kept_bytes) +
                                 " (LoaderOptions::kept_bytes), besides its batches"),
        options_.kept_bytes);
  }
}

void StreamCore::make_operators(const MakeRoot& make_root) {
  context_.skip_errors = plan_->errors.action == OnError::kSkip;
  context_.wake = [turn = turn_] { turn->wake(); };
  context_.wake_when_room = [this] { wait_for_room(); };
  context_.submit = [turn = turn_](WorkItem& item) { return turn->submit(item); };
  context_.finished = [turn = turn_] { turn->finished(); };
  context_.counter = [this](const std::string& stage) -> StageCounter& {
    counters_.emplace_back(stage, std::make_unique<StageCounter>());
    counters_.back().second->trace_into(options_.trace, stage);
    return *counters_.back().second;
  };
  context_.block_size = options_.block_size;
  context_.reads_in_flight = options_.reads_in_flight;
  root_ = make_root(*plan_, context_, form_.rows);
  BatcherHost& host = *this;
  batcher_ = std::make_unique<StreamBatcher>(
      host, form_, plan_->errors, most_batch_bytes_,
      std::make_shared<const std::vector<std::shared_ptr<const Source>>>(context_.sources), lent_count_);
}

void StreamCore::start() {
  runtime_.add(shared_from_this());
  memory_->on_free([turn = turn_] { turn->wake(); });
  try {
    if (options_.start.cursor) restore();
  } catch (...) {
    shutdown();
    throw;
  }
}

void StreamCore::restore() {
  const Position& start = options_.start;
  CursorReader reader(*start.cursor);
  const BatchStart begin = BatchStart::read(reader);
  const bool within = form_.rows ? begin.again <= form_.layout->batch_size : begin.again == 0;
  if (begin.slot + begin.again != start.slot || !within) {
    throw InvalidArgument("loader: the start's slot, " + std::to_string(start.slot) +
                          ", is not that of its cursor; it belongs to another plan");
  }
  const Pass pass{.epoch = start.epoch};
  if (begin.fresh) {
    root_->start(pass);
  } else {
    root_->restore(pass, reader);
  }
  if (!reader.at_end()) {
    throw InvalidArgument("loader: the start's cursor is longer than this plan's; it belongs to another plan");
  }
  batcher_->begin_epoch(start.epoch, begin, start.cursor);
  in_pass_ = true;
}

void StreamCore::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    context_.stopped = true;
  }
  notify();
  turn_->stop();
}

void StreamCore::shutdown() {
  stop();
  memory_->on_free({});
  turn_->wait();
  // Nothing runs any more: all that is left is ended on this thread.
  held_ = {};
  root_.reset();
  batcher_.reset();
  std::deque<StreamResult> results;
  {
    const std::lock_guard lock(mutex_);
    results.swap(results_);
  }
  results.clear();
  if (starving_.exchange(false)) runtime_.count_starving(-1);
  runtime_.remove(*this);
  trim();
  runtime_.room_freed();
}

void StreamCore::pump() {
  if (!begun_.exchange(true, std::memory_order_acq_rel)) turn_->wake();
}

std::uint64_t StreamCore::dropped_per_epoch() const {
  if (!form_.rows || form_.last != LastBatch::kDrop || !form_.all_elements) return 0;
  return *form_.all_elements - *form_.elements;
}

Position StreamCore::position() const {
  const std::lock_guard lock(mutex_);
  return position_;
}

LoaderReport StreamCore::report() const {
  LoaderReport report;
  for (const auto& [name, counter] : counters_) {
    report.stages.push_back({name, counter->count(), counter->seconds(), counter->bytes(), counter->wait_seconds()});
  }
  report.reads_most = context_.reads_most;
  report.skipped = faults_.skipped();
  const std::lock_guard lock(mutex_);
  report.samples = samples_delivered_;
  report.batches = batches_delivered_;
  report.seconds = begin_ ? std::chrono::duration<double>(Clock::now() - *begin_).count() : 0;
  report.ready_share = takes_ == 0 ? 0 : ready_shares_ / static_cast<double>(takes_);
  report.knobs = knobs_;
  return report;
}

Knobs StreamCore::knobs() const {
  const std::lock_guard lock(mutex_);
  return knobs_;
}

void StreamCore::turn(const Knobs& knobs) {
  if (knobs.block_size != 0) context_.block_size = knobs.block_size;
  if (knobs.reads_in_flight != 0) context_.reads_in_flight = knobs.reads_in_flight;
  if (knobs.batches_ahead != 0) {
    std::size_t ahead = knobs.batches_ahead;
    if (!own_blocks_) {
      ahead = std::min(ahead, memory_->capacity());
    } else if (ahead + 1 > own_blocks_->capacity()) {
      const std::size_t more = ahead + 1 - own_blocks_->capacity();
      own_blocks_->grow(
          BudgetShare::reserve(runtime_.budget(), checked_product(more, most_batch_bytes_),
                               std::to_string(more) + " more open batches, " + products(more, most_batch_bytes_)),
          more);
    }
    open_limit_ = ahead;
  }
  {
    const std::lock_guard lock(mutex_);
    if (knobs.block_size != 0) knobs_.block_size = knobs.block_size;
    if (knobs.reads_in_flight != 0) knobs_.reads_in_flight = knobs.reads_in_flight;
    knobs_.batches_ahead = open_limit_;
  }
  if (begun_) turn_->wake();
}

void StreamCore::trim() {
  if (own_blocks_) own_blocks_->trim();
}

bool StreamCore::held_by_caller_locked() const {
  // A memory of the user's own may lend to others as well: then this is not certain, and next() waits.
  return results_.empty() && lease_refused_ &&
         static_cast<std::size_t>(lent_count_.use_count()) == memory_->capacity() + 2;
}

std::exception_ptr StreamCore::held_error() const {
  const std::size_t blocks = memory_->capacity();
  std::string bytes = form_.rows ? std::to_string(form_.layout->size_bytes) : std::to_string(most_batch_bytes_);
  std::string sum = std::to_string(blocks) + " x " + bytes + " = " + std::to_string(blocks * most_batch_bytes_);
  if (!form_.rows) sum = "at most " + sum;
  return std::make_exception_ptr(
      BudgetHeldByCaller("next: all " + std::to_string(blocks) + " batches of this loader are held by the caller (" +
                         sum + " bytes), none is left to be filled; let one go, or " +
                         (own_blocks_ ? "ask for more with prefetch(" + std::to_string(blocks - 1) + ")"
                                      : std::string("let the batch memory lend more"))));
}

void StreamCore::count_take_locked(bool ready) {
  if (!ready) {
    taken_unready_ = true;
    return;
  }
  ++takes_;
  if (std::exchange(taken_unready_, false)) return;
  ready_shares_ += std::min(1.0, static_cast<double>(open_results_) / static_cast<double>(open_limit_));
}

std::optional<NextResult> StreamCore::try_take() {
  StreamResult result;
  bool credit = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) throw Stopped("next: the loader was stopped");
    if (epochs_ended()) return NextResult{};
    if (results_.empty()) {
      if (held_by_caller_locked()) return NextResult{std::nullopt, held_error()};
      count_take_locked(false);
      return std::nullopt;
    }
    if (results_.front().ends_stream) {
      faults_.add(std::exchange(results_.front().faults, {}));
      return NextResult{std::nullopt, results_.front().error};
    }
    count_take_locked(true);
    result = std::move(results_.front());
    results_.pop_front();
    faults_.add(result.faults);
    if (result.closes_batch) {
      --open_results_;
      ready_batches_.fetch_sub(1, std::memory_order_relaxed);
      credit = true;
    }
    if (result.batch) {
      position_ = result.batch->position;
      samples_delivered_ += result.batch->row_count;
      ++batches_delivered_;
    } else if (!result.error) {
      --end_results_;
      ++take_epoch_;
      position_ = {take_epoch_, 0};
      credit = true;
    }
  }
  if (credit) turn_->wake();
  if (result.batch) return NextResult{Batch(std::move(result.batch)), nullptr};
  return NextResult{std::nullopt, std::move(result.error)};
}

}  // namespace penstock::engine
