// A batch: named tensors with a leading batch dimension, how many rows are valid, and where each row came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/tensor.h>

namespace penstock {

/// Where the stages of a plan stand that cannot be worked out from a slot: numbers (and texts of users' own saving) in
/// the order in which the stages write them. Immutable once in a Position.
struct Cursor {
  std::vector<std::uint64_t> numbers;
  std::vector<std::string> texts;
  /// Not empty: the stage whose state cannot be saved; the cursor is then no place to start.
  std::string unsaved_stage;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

/// Where a pipeline stands: `slot` slots of the source order of `epoch` have been delivered (this rank's order). Small,
/// a value. After the last batch of an epoch it is {epoch + 1, 0}. Plans that are not flat (see Plan) count delivered
/// rows in `slot` and have a cursor besides.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t slot = 0;
  std::shared_ptr<const Cursor> cursor = {};
  friend bool operator==(const Position& a, const Position& b) {
    return a.epoch == b.epoch && a.slot == b.slot && !a.cursor == !b.cursor && (!a.cursor || *a.cursor == *b.cursor);
  }
};

/// A batch on loan from its BatchMemory; copies share it, and the last one gives it back. May outlive loader and
/// runtime. Safe to read from many threads.
class Batch {
 public:
  struct State;  // engine/batch_state.h
  explicit Batch(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  /// Rows that hold samples; `capacity()` rows are there in memory.
  std::size_t size() const noexcept;
  std::size_t capacity() const noexcept;
  const BatchLayout& layout() const noexcept;
  /// The memory of the whole block: `layout().size_bytes` bytes. Rows of this batch begin at row `first_row()`, which
  /// is not 0 only for the rows that follow a failed sample within the same block.
  const std::byte* data() const noexcept;
  std::size_t first_row() const noexcept;
  /// Rows `[size(), row shape]` of a field. Throws InvalidArgument for an unknown name or another type.
  template <class T>
  View<const T> view(std::string_view name) const {
    const FieldView field = field_view(name, kDataType<T>);
    return {reinterpret_cast<const T*>(field.data), field.shape};
  }
  /// The same untyped.
  const std::byte* field_data(std::size_t field) const noexcept;
  /// The sample that row `row` was made from; the first of them where it was made from several (`zip`, `window`).
  Origin origin(std::size_t row) const;
  std::vector<Origin> origins(std::size_t row) const;
  /// Path of the sample in `row`, as its source describes it.
  std::string describe(std::size_t row) const;
  /// Epoch this batch belongs to, and its number within the epoch (the number of the full-size batch it is part of).
  std::uint64_t epoch() const noexcept;
  std::uint64_t index() const noexcept;
  /// Where the pipeline stands after this batch: resuming there goes on with the next one.
  Position position() const noexcept;

 private:
  struct FieldView {
    const std::byte* data;
    Shape shape;
  };
  FieldView field_view(std::string_view name, DataType type) const;
  std::shared_ptr<const State> state_;
};

}  // namespace penstock
