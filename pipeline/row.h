// One sample on its way through the maps: what the body of a map reads and writes.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <penstock/pipeline/sample.h>
#include <penstock/pipeline/tensor.h>

namespace penstock {

/// The present value of one field of a row.
struct Cell {
  const std::byte* data = nullptr;
  DataType type = DataType::kU8;
  Shape shape;
  std::size_t size_bytes() const noexcept { return static_cast<std::size_t>(shape.element_count()) * byte_size(type); }
};

/// Memory for the values that a row holds on its way; the engine's (engine/row_buffers.h) reuses it from row to row,
/// and hands out the row of the batch itself to the last map that writes a field. All memory is 64-byte aligned and
/// followed by at least 64 bytes that may be overwritten, unless it is a row of the batch.
class RowMemory {
 public:
  virtual ~RowMemory() = default;
  /// Memory for the new value of `field`; the old value stays readable until the map returns.
  virtual std::byte* value(std::size_t field, std::size_t bytes) = 0;
  /// Memory that is free again when the map returns.
  virtual std::byte* scratch(std::size_t bytes) = 0;
  /// Keeps `tensor` alive until the row is finished.
  virtual void hold(Tensor tensor) = 0;
};

/// A row of a block. Fields are numbered as in the schema that the map was bound with. Used by one thread at a time.
class Row {
 public:
  explicit Row(RowMemory& memory) : memory_(&memory) {}

  std::size_t field_count() const noexcept { return cells_.size(); }
  const Cell& cell(std::size_t field) const noexcept { return cells_[field]; }
  /// Memory for a new value of `field`, which becomes its present value when the map returns without throwing. The old
  /// value stays readable until then. Throws DataError(kTooLarge) when it is beyond the loader's largest sample.
  std::byte* write(std::size_t field, DataType type, const Shape& shape) {
    std::byte* const data = memory_->value(field, static_cast<std::size_t>(shape.element_count()) * byte_size(type));
    cells_[field] = {data, type, shape};
    return data;
  }
  /// Makes `tensor`, kept alive, the present value of `field`.
  void hold(std::size_t field, Tensor tensor) {
    cells_[field] = {tensor.data(), tensor.type(), tensor.shape()};
    memory_->hold(std::move(tensor));
  }
  /// Memory for the map's own use until it returns. Throws DataError(kTooLarge) as `write` does.
  std::byte* scratch(std::size_t bytes) { return memory_->scratch(bytes); }

  const Origin& origin() const noexcept { return origin_; }
  /// The sample is left out, and no further map sees it. Only in stages that say so (MapStage::drops).
  void drop() noexcept { dropped_ = true; }
  bool dropped() const noexcept { return dropped_; }

  /// For the engine: sets the row up, and changes the number of fields.
  void reset(Origin origin, std::size_t field_count) {
    origin_ = origin;
    dropped_ = false;
    cells_.resize(field_count);
  }
  void set_cell(std::size_t field, const Cell& cell) { cells_[field] = cell; }

 private:
  std::vector<Cell> cells_;
  Origin origin_;
  bool dropped_ = false;
  RowMemory* memory_;
};

}  // namespace penstock
