// The sink of a row. A row that settles on the thread that is beginning its block is counted plainly; from any other
// thread the last one to settle sends the block on.
#include <penstock/pipeline/engine/block.h>

#include <string>
#include <utility>

#include <penstock/pipeline/engine/begin_scope.h>
#include <penstock/pipeline/engine/loader_core.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

thread_local Block* beginning = nullptr;

}  // namespace

BeginScope::BeginScope(Block& block) noexcept : before_(std::exchange(beginning, &block)) {}
BeginScope::~BeginScope() { beginning = before_; }

TraceAbout Block::about() const noexcept {
  return {.epoch = batch->epoch,
          .batch = batch->index,
          .row = first_row,
          .count = row_count,
          .sample = TraceAbout::kNothing};
}

void Block::run() noexcept { core->run(*this); }

void BlockRow::settle(RowState next) {
  Block& of = *block;
  state = next;
  if (beginning == &of) {
    ++of.inline_settled;
    return;
  }
  if (next != RowState::kRefused && of.core->trace().on()) {
    of.core->trace().read(asked, {.epoch = of.batch->epoch,
                                  .batch = of.batch->index,
                                  .row = of.first_row + number,
                                  .count = 1,
                                  .sample = placed.index});
  }
  of.core->read_answered(*this);
  if (of.reads_due.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    of.core->reads_complete(of);
  }
}

std::byte* BlockRow::allocate(std::size_t field, const Shape& shape) {
  Block& of = *block;
  const Chain& chain = of.core->chain();
  if (field >= chain.source_fields || !shape.known()) {
    fail(std::make_exception_ptr(DataError(
        ErrorKind::kOther, "the source gave field " + std::to_string(field) + " the shape " + shape.to_string())));
    return nullptr;
  }
  Cell& cell = of.cells[number * chain.source_fields + field];
  cell.type = chain.source_types[field];
  cell.shape = shape;
  const std::size_t bytes = cell.size_bytes();
  source_bytes += bytes;
  const std::int32_t destination = chain.source_destinations[field];
  if (destination >= 0 && of.core->reads_into_batch()) {
    const BatchField& target = chain.layout.fields[static_cast<std::size_t>(destination)];
    if (target.field.shape == shape) {
      std::byte* const data = of.core->place(of, number, static_cast<std::size_t>(destination));
      cell.data = data;
      return data;
    }
  }
  const std::uint64_t most = of.core->max_sample_bytes();
  if (bytes > most || read_bytes > most - bytes) {
    fail(std::make_exception_ptr(
        DataError(ErrorKind::kTooLarge, "reading the sample takes at least " + std::to_string(read_bytes + bytes) +
                                            " bytes, the most allowed is " + std::to_string(most) +
                                            " (LoaderOptions::max_sample_bytes)")));
    return nullptr;
  }
  Charge charge = of.core->charge(bytes);
  if (!charge) {
    wanted_bytes = read_bytes + bytes;
    settle(RowState::kRefused);
    return nullptr;
  }
  try {
    memory.push_back({std::move(charge), make_aligned(bytes)});
  } catch (...) {
    fail(std::current_exception());
    return nullptr;
  }
  read_bytes += bytes;
  cell.data = memory.back().memory.get();
  return memory.back().memory.get();
}

void BlockRow::borrow(std::size_t field, const Shape& shape, const std::byte* data) {
  const Chain& chain = block->core->chain();
  if (field >= chain.source_fields) return;
  Cell& cell = block->cells[number * chain.source_fields + field];
  cell.data = data;
  cell.type = chain.source_types[field];
  cell.shape = shape;
  source_bytes += cell.size_bytes();
}

void BlockRow::done() { settle(RowState::kRead); }

void BlockRow::fail(std::exception_ptr failure) {
  error = std::move(failure);
  failed_stage = kReadStage;
  settle(RowState::kFailed);
}

}  // namespace penstock::engine
