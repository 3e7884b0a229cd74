// What is pulled again is told apart by counting: elements before the wanted one are discarded, and as many skipped
// ones are left out as had been given since the mark.
#include <penstock/pipeline/stage/repeatable_input.h>

#include <utility>

namespace penstock::stage {

using engine::Element;
using engine::Pass;
using engine::Pull;

RepeatableInput::RepeatableInput(std::unique_ptr<engine::Operator> input, Admit admit, Skipped skipped)
    : input_(std::move(input)), admit_(std::move(admit)), treatment_(skipped) {}

void RepeatableInput::start(const Pass& pass) {
  number_ = skipped_ = discard_ = ignore_ = 0;
  input_->start(pass);
  marks_.clear();
  mark();
}

Pull RepeatableInput::next(Element& out) {
  while (true) {
    // An element that is discarded must not hold its bytes while the next one is made.
    out = {};
    if (const Pull pull = input_->next(out); pull != Pull::kElement) return pull;
    if (admit_ && out.is_value()) out = admit_(std::move(out));
    if (out.kind == Element::Kind::kSkipped && treatment_ == Skipped::kPassedOn) {
      ++skipped_;
      if (ignore_ == 0) return Pull::kElement;
      --ignore_;
      continue;
    }
    ++number_;
    if (discard_ == 0) return Pull::kElement;
    --discard_;
  }
}

void RepeatableInput::mark() {
  Mark& mark = marks_.emplace_back(Mark{number_, skipped_, {}});
  input_->save(mark.cursor);
}

void RepeatableInput::forget_before(std::uint64_t number) {
  while (marks_.size() > 1 && marks_[1].number <= number) marks_.pop_front();
}

void RepeatableInput::save(Cursor& cursor, std::uint64_t from) const {
  auto mark = marks_.rbegin();
  while (mark->number > from) ++mark;
  // Those that are still to be ignored have been given, too.
  const std::uint64_t given = skipped_ - mark->skipped + ignore_;
  cursor.numbers.insert(cursor.numbers.end(), {from, from - mark->number, given});
  append(cursor, mark->cursor);
}

void RepeatableInput::restore(const Pass& pass, engine::CursorReader& cursor) {
  const std::uint64_t from = cursor.number();
  discard_ = cursor.number();
  ignore_ = cursor.number();
  number_ = from - discard_;
  skipped_ = 0;
  input_->restore(pass, cursor);
  marks_.clear();
  mark();
}

void append(Cursor& cursor, const Cursor& part) {
  cursor.numbers.insert(cursor.numbers.end(), part.numbers.begin(), part.numbers.end());
  cursor.texts.insert(cursor.texts.end(), part.texts.begin(), part.texts.end());
  if (cursor.unsaved_stage.empty()) cursor.unsaved_stage = part.unsaved_stage;
}

}  // namespace penstock::stage
