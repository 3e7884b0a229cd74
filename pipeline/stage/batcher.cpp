// The elements of the present group are kept until their batch is made. Saved are the input's cursor before the group
// and how many pieces of it were given on.
#include <penstock/pipeline/stage/batcher.h>

#include <utility>

namespace penstock::stage {

using engine::Charge;
using engine::Element;
using engine::Pass;
using engine::Pull;

Batcher::Batcher(engine::StreamContext& context, std::string stage, std::uint64_t kind, std::size_t size,
                 LastBatch last, std::unique_ptr<BatchMaker> maker, std::unique_ptr<engine::Operator> input,
                 RepeatableInput::Admit admit)
    : context_(context),
      stage_(std::move(stage)),
      kind_(kind),
      size_(size),
      last_(last),
      maker_(std::move(maker)),
      input_(std::move(input), std::move(admit)) {}

Batcher::~Batcher() { drop_group(); }

void Batcher::drop_group() {
  release(at_, group_.size());
  group_.clear();
  maker_->forget();
  at_ = 0;
  given_ = skip_ = 0;
  complete_ = false;
}

void Batcher::release(std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    if (group_[i].is_value()) context_.kept->give_on(group_[i], Charge{});
    group_[i] = {};
  }
}

void Batcher::start(const Pass& pass) {
  drop_group();
  ended_ = false;
  group_start_ = 0;
  input_.start(pass);
}

Pull Batcher::next(Element& out) {
  out = {};
  while (true) {
    while (complete_ && skip_ > 0) skip_piece();
    if (complete_) return give_piece(out) ? Pull::kElement : Pull::kPending;
    if (ended_) return Pull::kEnd;
    Element element;
    const Pull pull = input_.next(element);
    if (pull == Pull::kPending) return pull;
    if (pull == Pull::kEnd) {
      ended_ = true;
      if (last_ == LastBatch::kDrop) drop_group();
      complete_ = !group_.empty();
      if (complete_) input_.mark();
      continue;
    }
    if (element.kind == Element::Kind::kSkipped) {
      out = std::move(element);
      return pull;
    }
    if (element.is_value()) context_.kept->keep(element, stage_);
    group_.push_back(std::move(element));
    if (group_.size() < size_) continue;
    complete_ = true;
    input_.mark();
  }
}

// One past the piece that begins at `at_`: a run of values, or one error.
std::size_t Batcher::piece_end() const {
  std::size_t end = at_;
  while (end < group_.size() && group_[end].is_value()) ++end;
  return end == at_ ? at_ + 1 : end;
}

bool Batcher::give_piece(Element& out) {
  const std::size_t end = piece_end();
  if (!group_[at_].is_value()) {
    out = std::move(group_[at_]);
    end_piece(end);
    return true;
  }
  std::vector<const Element*> rows;
  for (std::size_t i = at_; i < end; ++i) rows.push_back(&group_[i]);
  try {
    std::optional<Element> made = maker_->make(rows);
    if (!made) return false;
    out = std::move(*made);
  } catch (...) {
    out = failed_or_skipped(context_, joined(kind_, rows), stage_, std::current_exception());
  }
  release(at_, end);
  end_piece(end);
  return true;
}

void Batcher::skip_piece() {
  const std::size_t end = piece_end();
  if (group_[at_].is_value()) release(at_, end);
  --skip_;
  end_piece(end);
}

void Batcher::end_piece(std::size_t end) {
  at_ = end;
  ++given_;
  if (at_ < group_.size()) return;
  group_.clear();
  at_ = 0;
  given_ = 0;
  complete_ = false;
  group_start_ = input_.number();
  input_.forget_before(group_start_);
}

void Batcher::save(Cursor& cursor) const {
  cursor.numbers.push_back(given_ + skip_);
  input_.save(cursor, group_start_);
}

void Batcher::restore(const Pass& pass, engine::CursorReader& cursor) {
  drop_group();
  ended_ = false;
  skip_ = cursor.number();
  input_.restore(pass, cursor);
  group_start_ = input_.number();
}

}  // namespace penstock::stage
