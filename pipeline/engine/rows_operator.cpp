// The window of blocks: how far ahead it reaches, and what becomes of blocks for which there was no room.
#include <penstock/pipeline/engine/rows_operator.h>

#include <algorithm>
#include <utility>

#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

// A block is worth about so much work; more rows than these are not worth waiting for.
constexpr std::uint64_t kBlockNs = 100'000;
constexpr std::size_t kMostRows = 64;
// Reads that wait for a device do not need a worker each.
constexpr std::size_t kLeastReads = 32;

void append(Cursor& cursor, const Cursor& more) {
  cursor.numbers.insert(cursor.numbers.end(), more.numbers.begin(), more.numbers.end());
  cursor.texts.insert(cursor.texts.end(), more.texts.begin(), more.texts.end());
  if (cursor.unsaved_stage.empty()) cursor.unsaved_stage = more.unsaved_stage;
}

}  // namespace

RowsOperator::RowsOperator(StreamContext& context, RowsProgram program, RowsSource source)
    : context_(context), work_(std::make_shared<RowsWork>(context, std::move(program), std::move(source))) {
  begin({});
}

RowsOperator::RowsOperator(StreamContext& context, RowsProgram program, std::unique_ptr<Operator> input)
    : context_(context),
      input_(std::move(input)),
      work_(std::make_shared<RowsWork>(context, std::move(program), std::nullopt)) {
  begin({});
}

RowsOperator::~RowsOperator() { drop_blocks(); }

void RowsOperator::drop_blocks() {
  for (const std::shared_ptr<RowsBlock>& block : blocks_) block->abandon();
  blocks_.clear();
}

void RowsOperator::begin(const Pass& pass) {
  drop_blocks();
  pass_ = pass;
  rows_ = 0;
  returned_ = 0;
  rows_ahead_ = std::size_t(-1);
  next_slot_ = 0;
  input_ended_ = false;
  input_error_ = nullptr;
  skip_ = 0;
  skip_left_ = 0;
  restored_ = {};
}

void RowsOperator::start(const Pass& pass) {
  begin(pass);
  if (input_) input_->start(pass);
}

void RowsOperator::save(Cursor& cursor) const {
  if (!input_) {
    cursor.numbers.push_back(blocks_.empty() ? next_slot_ : blocks_.front()->first_slot + returned_);
  } else if (!blocks_.empty()) {
    cursor.numbers.push_back(returned_);
    append(cursor, blocks_.front()->before);
  } else if (skip_left_ != 0) {
    cursor.numbers.push_back(skip_);
    append(cursor, restored_);
  } else {
    cursor.numbers.push_back(0);
    input_->save(cursor);
  }
}

void RowsOperator::restore(const Pass& pass, CursorReader& cursor) {
  begin(pass);
  const std::uint64_t number = cursor.number();
  if (!input_) {
    const std::uint64_t slots = work_->leaf->order->size();
    if (number > slots) {
      throw InvalidArgument("state: slot " + std::to_string(number) + " of a source of " + std::to_string(slots) +
                            "; it belongs to another plan");
    }
    next_slot_ = number;
    return;
  }
  input_->restore(pass, cursor);
  skip_ = skip_left_ = number;
  if (skip_ != 0) input_->save(restored_);
}

std::size_t RowsOperator::rows_in_block() {
  const std::size_t knob = context_.block_size.load(std::memory_order_relaxed);
  if (knob != 0) return block_rows_ = knob;
  const std::uint64_t row_ns = work_->row_ns.load(std::memory_order_relaxed);
  if (row_ns == 0) return block_rows_ = 1;
  const std::uint64_t worth = std::clamp<std::uint64_t>(kBlockNs / row_ns, 1, kMostRows);
  return block_rows_ = std::min<std::size_t>(worth, 2 * block_rows_);
}

std::size_t RowsOperator::most_rows() const {
  const std::size_t window = (2 * context_.runtime.threads() + 2) * block_rows_;
  return std::min(input_ ? window : std::max(window, kLeastReads), rows_ahead_);
}

bool RowsOperator::launch(RowsBlock& block, bool single) {
  const std::size_t limit = input_ ? 0 : context_.reads_in_flight.load(std::memory_order_relaxed);
  const std::size_t unread = work_->unread.load(std::memory_order_relaxed);
  const std::size_t more = single ? 1 : block.rows.size();
  if (limit != 0 && unread != 0 && unread + more > limit) return false;
  return block.launch(single);
}

void RowsOperator::add(std::shared_ptr<RowsBlock> block) {
  block->sequence = next_sequence_++;
  rows_ += block->rows.size();
  const bool only = blocks_.empty();
  blocks_.push_back(std::move(block));
  RowsBlock& added = *blocks_.back();
  if (added.first_unfinished(0) == added.rows.size()) return;
  launch(added, only && added.rows.size() == 1);
}

bool RowsOperator::add_leaf_block(std::size_t most_rows) {
  const std::uint64_t left = work_->leaf->order->size() - next_slot_;
  std::size_t count = std::min<std::uint64_t>({left, rows_in_block(), most_rows});
  const std::size_t limit = context_.reads_in_flight.load(std::memory_order_relaxed);
  if (limit != 0) {
    const std::size_t unread = work_->unread.load(std::memory_order_relaxed);
    count = std::min(count, limit > unread ? limit - unread : 0);
  }
  if (count == 0) return false;
  auto block = std::make_shared<RowsBlock>(work_, pass_);
  block->first_slot = next_slot_;
  block->rows = std::vector<RowsRow>(count);
  next_slot_ += count;
  add(std::move(block));
  return true;
}

// What had been given on before the state was saved. False: pending, or over.
bool RowsOperator::skip_again() {
  for (; skip_left_ != 0; --skip_left_) {
    Element again;
    const Pull pull = input_->next(again);
    if (pull == Pull::kPending) return false;
    if (pull == Pull::kEnd) {
      input_ended_ = true;
      skip_left_ = 0;
      return false;
    }
  }
  return true;
}

bool RowsOperator::add_input_block(std::size_t most_rows) {
  if (input_ended_ || input_error_) return false;
  auto block = std::make_shared<RowsBlock>(work_, pass_);
  bool more = true;
  try {
    if (!skip_again()) return false;
    input_->save(block->before);
    const std::size_t count = std::min(rows_in_block(), most_rows);
    while (more && block->rows.size() < count) {
      Element element;
      const Pull pull = input_->next(element);
      if (pull == Pull::kElement) {
        RowsRow& row = block->rows.emplace_back();
        if (!element.is_value()) row.state = RowsRow::State::kDone;
        row.element = std::move(element);
      } else {
        more = false;
        input_ended_ = pull == Pull::kEnd;
      }
    }
  } catch (...) {
    // In its place: what came before it goes first.
    more = false;
    input_error_ = std::current_exception();
  }
  if (block->rows.empty()) return false;
  add(std::move(block));
  return more;
}

void RowsOperator::fill() {
  for (;;) {
    const std::size_t most = std::max<std::size_t>(1, most_rows());
    if (rows_ >= most) return;
    if (!(input_ ? add_input_block(most - rows_) : add_leaf_block(most - rows_))) return;
  }
}

void RowsOperator::pop_front() {
  RowsBlock& front = *blocks_.front();
  rows_ -= front.rows.size();
  // The window grows again while there is room.
  if (!front.noted && rows_ahead_ != std::size_t(-1)) rows_ahead_ += front.rows.size();
  blocks_.pop_front();
  returned_ = 0;
}

bool RowsOperator::take_from_front(Element& out) {
  while (!blocks_.empty() && !blocks_.front()->busy()) {
    RowsBlock& front = *blocks_.front();
    while (returned_ < front.rows.size() && front.rows[returned_].state == RowsRow::State::kDone) {
      RowsRow& row = front.rows[returned_++];
      if (row.dropped) continue;
      out = std::move(row.element);
      if (returned_ == front.rows.size()) pop_front();
      return true;
    }
    if (returned_ < front.rows.size()) return false;
    pop_front();
  }
  return false;
}

// All rows before its first unfinished one have been given on, so that one may use the guaranteed bytes.
void RowsOperator::send_front() {
  RowsBlock& front = *blocks_.front();
  if (front.refused()) {
    front.one_by_one = true;
    if (!front.noted) {
      front.noted = true;
      rows_ahead_ = std::max<std::size_t>(1, std::min(rows_ahead_, rows_) / 2);
    }
    const auto room = [&] {
      return work_->working->has_room(front.wanted_working()) && work_->results->has_room(front.wanted_result());
    };
    if (!room()) {
      context_.wake_when_room();
      if (!room()) return;
    }
  }
  launch(front, front.one_by_one || front.rows.size() - returned_ == 1);
}

// Those behind it, as far as what is over lets them.
void RowsOperator::send_refused() {
  std::size_t rows = 0;
  for (const std::shared_ptr<RowsBlock>& block : blocks_) {
    const bool front = block == blocks_.front();
    rows += block->rows.size();
    if (front || block->busy() || block->first_unfinished(0) == block->rows.size()) continue;
    if (block->refused()) {
      if (!block->noted) {
        block->noted = true;
        rows_ahead_ = std::max<std::size_t>(1, std::min(rows_ahead_, rows_) / 2);
      }
      if (rows > rows_ahead_) return;
      if (!work_->working->try_shared(block->wanted_working() + block->wanted_result())) return;
    }
    if (!launch(*block, false)) return;
  }
}

Pull RowsOperator::next(Element& out) {
  for (;;) {
    if (take_from_front(out)) {
      fill();
      return Pull::kElement;
    }
    fill();
    if (blocks_.empty()) {
      if (input_error_) std::rethrow_exception(input_error_);
      const bool over = input_ ? input_ended_ : next_slot_ == work_->leaf->order->size();
      return over ? Pull::kEnd : Pull::kPending;
    }
    RowsBlock& front = *blocks_.front();
    if (!front.busy()) {
      if (front.rows[returned_].state == RowsRow::State::kDone) continue;
      send_front();
    }
    send_refused();
    return Pull::kPending;
  }
}

}  // namespace penstock::engine
