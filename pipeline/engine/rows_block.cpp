// How a block is begun, waits, and ends its rounds. What its rows go through is in rows_round.cpp.
#include <penstock/pipeline/engine/rows_block.h>

#include <algorithm>

#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

thread_local RowsBlock* beginning = nullptr;

}  // namespace

/// Marks the block that the present thread is beginning, so that rows that settle within that call know it. Scopes may
/// nest: a source that waits inside oneTBB may begin another block meanwhile.
class RowsBlock::BeginScope {
 public:
  explicit BeginScope(RowsBlock& block) noexcept : before_(std::exchange(beginning, &block)) {}
  ~BeginScope() { beginning = before_; }
  BeginScope(const BeginScope&) = delete;
  BeginScope& operator=(const BeginScope&) = delete;

 private:
  RowsBlock* const before_;
};

RowsWork::RowsWork(StreamContext& of, RowsProgram bound, std::optional<RowsSource> from)
    : context(of), submit(of.submit), finished(of.finished), program(std::move(bound)), leaf(std::move(from)) {
  const std::string stage = program.maps.empty() ? (leaf ? "read" : "cache") : program.maps.back().name;
  const std::uint64_t most = context.max_sample_bytes;
  const std::shared_ptr<Budget>& budget = context.runtime.budget();
  working = BudgetShare::reserve(budget, most, "one sample on its way to " + stage + ", " + std::to_string(most));
  const std::uint64_t result = program.in_place ? program.result_bytes : most;
  results = BudgetShare::reserve(budget, result, "one sample from " + stage + ", " + std::to_string(result));
}

Charge RowsWork::charge(bool guaranteed, std::uint64_t bytes) const {
  if (guaranteed) {
    if (Charge charge = working->try_guaranteed(bytes)) return charge;
  }
  return working->try_shared(bytes);
}

Charge RowsWork::charge_result(bool guaranteed, std::uint64_t bytes) const {
  if (guaranteed) {
    if (Charge charge = results->try_guaranteed(bytes)) return charge;
  }
  return results->try_shared(bytes);
}

void RowsWork::count_cost(std::uint64_t ns_per_row) {
  const std::uint64_t before = row_ns.load(std::memory_order_relaxed);
  const std::uint64_t now = before == 0 ? ns_per_row : (3 * before + ns_per_row) / 4;
  row_ns.store(std::max<std::uint64_t>(1, now), std::memory_order_relaxed);
}

bool RowsBlock::launch(bool single) {
  single_ = single;
  const std::size_t first = first_unfinished(0);
  unread_ = single ? 1 : rows.size() - first;
  if (work_->program.store && !answers_) {
    answers_ = std::make_shared<Answers>();
    const MutexLock lock(answers_->mutex);
    answers_->block = this;
  }
  work_->unread.fetch_add(unread_, std::memory_order_relaxed);
  self_ = shared_from_this();
  busy_.store(true, std::memory_order_relaxed);
  if (work_->submit(*this)) return true;
  busy_.store(false, std::memory_order_relaxed);
  count_read();
  self_.reset();
  return false;
}

void RowsBlock::abandon() {
  abandoned_.store(true, std::memory_order_relaxed);
  if (!answers_) return;
  const MutexLock lock(answers_->mutex);
  answers_->block = nullptr;
}

std::size_t RowsBlock::first_unfinished(std::size_t from) const noexcept {
  while (from < rows.size() && rows[from].state == RowsRow::State::kDone) ++from;
  return from;
}

bool RowsBlock::ended() const noexcept {
  return abandoned_.load(std::memory_order_relaxed) || work_->context.stopped.load(std::memory_order_relaxed);
}

void RowsBlock::run() noexcept {
  if (ended()) {
    drop();
    leave(true, std::move(self_));
  } else if (reads_in_) {
    run_round();
  } else {
    begin_round();
  }
}

void RowsBlock::place_rows() {
  placed_ = true;
  const RowsSource& leaf = *work_->leaf;
  std::vector<order::Placed> placed(rows.size());
  // Inside a repeat that is not the source's own, each pass is shuffled like an epoch of its own.
  const std::uint64_t epoch = pass_.repeated ? mix_lineage(pass_.epoch, pass_.passes) : pass_.epoch;
  leaf.order->fill(epoch, first_slot, placed);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Element& element = rows[i].element;
    element.lineage = placed[i].lineage;
    if (leaf.number != 0) element.lineage = mix_lineage(element.lineage, leaf.number);
    if (pass_.repeated) element.lineage = mix_lineage(element.lineage, pass_.passes);
    element.origins = {{leaf.number, placed[i].index}};
  }
}

void RowsBlock::begin_round() {
  if (work_->leaf && !placed_) place_rows();
  if (answers_) take_answers();
  answers_due_.store(1, std::memory_order_relaxed);
  inline_settled_ = 0;
  refused_ = false;
  const std::size_t first = first_unfinished(0);
  const std::size_t end = single_ ? std::min(rows.size(), first + 1) : rows.size();
  const auto count = static_cast<std::uint32_t>(rows.size());
  reads_due_.store(count + 1, std::memory_order_relaxed);
  std::uint32_t begun = 0;
  {
    const BeginScope scope(*this);
    for (std::size_t i = first; i < end && !ended(); ++i) {
      RowsRow& row = rows[i];
      if (row.state != RowsRow::State::kTodo) continue;
      row.block = this;
      row.number = static_cast<std::uint32_t>(i);
      row.wanted_working = 0;
      row.wanted_result = 0;
      if (work_->program.store && !look_up(row)) continue;
      if (work_->leaf) {
        ++begun;
        read(row);
      } else {
        row.state = RowsRow::State::kRead;
      }
    }
  }
  const std::uint32_t settled = 1 + (count - begun) + inline_settled_;
  if (reads_due_.fetch_sub(settled, std::memory_order_acq_rel) == settled) run_round();
}

void RowsBlock::read(RowsRow& row) {
  const std::size_t fields = work_->program.input.size();
  row.cells.assign(fields, {});
  row.borrowed.assign(fields, false);
  row.state = RowsRow::State::kReading;
  row.asked = std::chrono::steady_clock::now();
  const std::size_t out = work_->reads_out.fetch_add(1, std::memory_order_relaxed) + 1;
  std::atomic<std::size_t>& most = work_->context.reads_most;
  std::size_t seen = most.load(std::memory_order_relaxed);
  while (seen < out && !most.compare_exchange_weak(seen, out, std::memory_order_relaxed)) {
  }
  const std::uint64_t index = row.element.origins.front().index;
  try {
    work_->leaf->source->read(index, row, work_->context.runtime.files());
  } catch (...) {
    // A source that breaks its promise not to throw: nothing may leave a body of the graph.
    if (row.state == RowsRow::State::kReading) row.fail(std::current_exception());
  }
  row.called_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - row.asked).count());
}

bool RowsBlock::count_inline() noexcept {
  if (beginning != this) return false;
  ++inline_settled_;
  return true;
}

void RowsBlock::settled_elsewhere() {
  if (reads_due_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  reads_in_ = true;
  std::shared_ptr<RowsBlock> keep = self_;
  const std::function<void()> finished = work_->finished;
  if (!work_->submit(*this)) {
    keep.reset();
    drop();
    leave(true, std::move(self_));
    return;
  }
  // A worker may be through with it already; that it is due has been counted again.
  keep.reset();
  finished();
}

// True when the row is to be read.
bool RowsBlock::look_up(RowsRow& row) {
  const Origin& origin = row.element.origins.front();
  try {
    const Source& source = work_->leaf ? *work_->leaf->source : *work_->context.sources.at(origin.source);
    row.key = work_->program.keys.key(source.fingerprint(origin.index));
  } catch (...) {
    row.error = std::current_exception();
    row.failed_stage = -1;
    row.state = RowsRow::State::kFailed;
    return false;
  }
  // Counted before the store can call back.
  answers_due_.fetch_add(1, std::memory_order_relaxed);
  const Lookup found = work_->program.store->begin(
      row.key, row.hit, [answers = answers_, number = row.number](const std::exception_ptr& error) {
        const MutexLock lock(answers->mutex);
        if (!answers->block) return;
        if (error) answers->failures.emplace_back(number, error);
        answers->block->answered();
      });
  if (found == Lookup::kPending) {
    row.state = RowsRow::State::kWaiting;
    return false;
  }
  answers_due_.fetch_sub(1, std::memory_order_relaxed);
  row.owned = found == Lookup::kOwner;
  if (row.owned) return true;
  row.state = RowsRow::State::kHit;
  return false;
}

// What the rows waited for has ended. A load that failed for its owner fails here with the same stage and cause.
void RowsBlock::take_answers() {
  for (RowsRow& row : rows) {
    if (row.state == RowsRow::State::kWaiting) row.state = RowsRow::State::kTodo;
  }
  const MutexLock lock(answers_->mutex);
  for (auto& [number, error] : answers_->failures) {
    RowsRow& row = rows[number];
    row.state = RowsRow::State::kFailed;
    row.failed_stage = -1;
    row.error = error;
    try {
      std::rethrow_exception(error);
    } catch (const SampleError& failure) {
      row.failed_stage = work_->program.stage_number(failure.stage());
      if (failure.cause()) row.error = failure.cause();
    } catch (...) {
      // Another user of the store gave a reason of its own: it stands as it is.
    }
  }
  answers_->failures.clear();
}

// Under the mutex of the answers, which holds the operator, and so this block, back from going.
void RowsBlock::answered() {
  if (answers_due_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  self_ = shared_from_this();
  if (!work_->submit(*this)) self_.reset();
}

void RowsBlock::end_round(std::size_t waiting) {
  if (ended()) {
    drop();
    leave(true, std::move(self_));
    return;
  }
  reads_in_ = false;
  std::shared_ptr<RowsBlock> keep = std::move(self_);
  if (waiting == 0) {
    leave(true, std::move(keep));
    return;
  }
  // From here on an answer may send the block on, on another thread.
  const std::function<void()> finished = work_->finished;
  if (answers_due_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    leave(false, std::move(keep));
    return;
  }
  self_ = keep;
  if (!work_->submit(*this)) {
    keep.reset();
    drop();
    leave(true, std::move(self_));
    return;
  }
  keep.reset();
  finished();
}

// The block is not touched any more but through `keep`, once the operator may have it back.
void RowsBlock::leave(bool idle, std::shared_ptr<RowsBlock> keep) {
  StreamContext& context = work_->context;
  const std::function<void()> finished = work_->finished;
  if (idle) {
    busy_.store(false, std::memory_order_release);
    context.wake();
  }
  RuntimeState& runtime = context.runtime;
  keep.reset();  // with what it holds, when nobody wants it any more
  runtime.room_freed();
  finished();
}

void RowsBlock::count_read() noexcept { work_->unread.fetch_sub(std::exchange(unread_, 0), std::memory_order_relaxed); }

void RowsBlock::drop() {
  for (RowsRow& row : rows) {
    if (row.state != RowsRow::State::kDone) put_back(row);
  }
  count_read();
  reads_in_ = false;
}

void RowsRow::settle(State next) {
  RowsBlock& of = *block;
  state = next;
  of.work()->reads_out.fetch_sub(1, std::memory_order_relaxed);
  if (of.count_inline()) return;
  waited_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - asked).count());
  of.settled_elsewhere();
}

std::byte* RowsRow::allocate(std::size_t field, const Shape& shape) {
  const RowsWork& work = *block->work();
  const RowsProgram& program = work.program;
  if (field >= program.input.size() || !shape.known()) {
    fail(std::make_exception_ptr(DataError(
        ErrorKind::kOther, "the source gave field " + std::to_string(field) + " the shape " + shape.to_string())));
    return nullptr;
  }
  Cell& cell = cells[field];
  cell.type = program.input[field].type;
  cell.shape = shape;
  const std::size_t bytes = cell.size_bytes();
  const std::int32_t destination = program.input_destinations[field];
  const std::uint64_t most = work.context.max_sample_bytes;
  try {
    if (destination >= 0 && program.output[static_cast<std::size_t>(destination)].shape == shape) {
      block->make_result(*this);
      std::byte* const data = result.get() + program.offsets[static_cast<std::size_t>(destination)];
      cell.data = data;
      return data;
    }
    if (bytes > most || read_bytes > most - bytes) {
      throw DataError(ErrorKind::kTooLarge, "reading the sample takes at least " + std::to_string(read_bytes + bytes) +
                                                " bytes, the most allowed is " + std::to_string(most) +
                                                " (LoaderOptions::max_sample_bytes)");
    }
    Charge charge = work.charge(block->single(), bytes);
    if (!charge) {
      wanted_working = read_bytes + bytes;
      throw NoRoom{};
    }
    memory.push_back({std::move(charge), make_aligned(bytes)});
  } catch (const NoRoom&) {
    settle(State::kRefused);
    return nullptr;
  } catch (...) {
    fail(std::current_exception());
    return nullptr;
  }
  read_bytes += bytes;
  cell.data = memory.back().memory.get();
  return memory.back().memory.get();
}

void RowsRow::borrow(std::size_t field, const Shape& shape, const std::byte* data) {
  const RowsProgram& program = block->work()->program;
  if (field >= program.input.size()) return;
  cells[field] = {data, program.input[field].type, shape};
  borrowed[field] = true;
}

void RowsRow::done() { settle(State::kRead); }

void RowsRow::fail(std::exception_ptr failure) {
  error = std::move(failure);
  failed_stage = -1;
  settle(State::kFailed);
}

}  // namespace penstock::engine
