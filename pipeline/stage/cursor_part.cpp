// A part is written as [count of numbers, the numbers, count of texts], and its texts in turn.
#include <penstock/pipeline/stage/cursor_part.h>

#include <penstock/pipeline/stage/repeatable_input.h>

namespace penstock::stage {

void append_part(Cursor& to, const Cursor& part) {
  to.numbers.push_back(part.numbers.size());
  append(to, part);
  to.numbers.push_back(part.texts.size());
}

Cursor read_part(engine::CursorReader& cursor) {
  Cursor part;
  for (std::uint64_t left = cursor.number(); left > 0; --left) part.numbers.push_back(cursor.number());
  for (std::uint64_t left = cursor.number(); left > 0; --left) part.texts.push_back(cursor.text());
  return part;
}

}  // namespace penstock::stage
