// An input from which the elements since a mark can be pulled again: what an operator needs that has pulled more than
// it has returned, and is to be saved. A mark is the input's own cursor.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include <penstock/pipeline/engine/operator.h>

namespace penstock::stage {

/// What an operator does with elements that are skipped.
enum class Skipped : std::uint8_t {
  kPassedOn,  ///< returns them at once: they are not counted, and not given again after `restore`
  kCounted,   ///< treats them like any other: they keep their place
};

/// Counts what it gives, from 0 on. Used by one thread at a time.
class RepeatableInput {
 public:
  /// Sees every value before it is counted, and returns it or what stands in its place.
  using Admit = std::function<engine::Element(engine::Element)>;
  explicit RepeatableInput(std::unique_ptr<engine::Operator> input, Admit admit = {},
                           Skipped skipped = Skipped::kPassedOn);

  void start(const engine::Pass& pass);
  /// The next element.
  engine::Pull next(engine::Element& out);
  /// Number of the next element.
  std::uint64_t number() const noexcept { return number_ + discard_; }
  /// The next element can be gone back to. `start` and `restore` set a mark.
  void mark();
  /// Nothing before element `number` will be saved any more.
  void forget_before(std::uint64_t number);
  /// Appends three numbers and a mark's cursor: `restore` then goes on with element `from`, which must not lie before
  /// the first mark that is kept.
  void save(Cursor& cursor, std::uint64_t from) const;
  void restore(const engine::Pass& pass, engine::CursorReader& cursor);

 private:
  struct Mark {
    std::uint64_t number;
    std::uint64_t skipped;
    Cursor cursor;
  };
  std::unique_ptr<engine::Operator> input_;
  Admit admit_;
  Skipped treatment_;
  std::deque<Mark> marks_;
  std::uint64_t number_ = 0;
  std::uint64_t skipped_ = 0;  // so far
  std::uint64_t discard_ = 0;  // elements before `from` that are still to come
  std::uint64_t ignore_ = 0;   // skipped ones that have been given before `restore`, and come again
};

/// Appends all of `part`.
void append(Cursor& cursor, const Cursor& part);

}  // namespace penstock::stage
