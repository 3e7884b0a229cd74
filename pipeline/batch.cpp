// A batch reads everything from its state; see engine/batch_state.h.
#include <penstock/pipeline/batch.h>

#include <vector>

#include <penstock/pipeline/engine/batch_state.h>
#include <penstock/pipeline/error.h>

namespace penstock {

std::size_t Batch::size() const noexcept { return state_->row_count; }
std::size_t Batch::capacity() const noexcept { return layout().batch_size; }
const BatchLayout& Batch::layout() const noexcept { return *state_->block->layout; }
const std::byte* Batch::data() const noexcept { return state_->block->lease.data(); }
std::size_t Batch::first_row() const noexcept { return state_->first_row; }
std::uint64_t Batch::epoch() const noexcept { return state_->epoch; }
std::uint64_t Batch::index() const noexcept { return state_->index; }
Position Batch::position() const noexcept { return state_->position; }

const std::byte* Batch::field_data(std::size_t field) const noexcept {
  const BatchField& place = layout().fields[field];
  return data() + place.offset + state_->first_row * place.row_stride;
}

Batch::FieldView Batch::field_view(std::string_view name, DataType type) const {
  const std::size_t at = layout().index_of(name);
  const Field& field = layout().fields[at].field;
  if (field.type != type) {
    throw InvalidArgument("batch: field \"" + field.name + "\" holds " + to_string(field.type) + ", not " +
                          to_string(type));
  }
  if (field.shape.rank() == Shape::kMaxRank) {
    throw InvalidArgument("batch: rows of field \"" + field.name + "\" have " + std::to_string(Shape::kMaxRank) +
                          " dimensions, which leaves none for the batch; use field_data");
  }
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(size())};
  dims.insert(dims.end(), field.shape.dims().begin(), field.shape.dims().end());
  return {field_data(at), Shape(std::span<const std::int64_t>(dims))};
}

Origin Batch::origin(std::size_t row) const {
  if (row >= size()) {
    throw InvalidArgument("batch: row " + std::to_string(row) + " of " + std::to_string(size()));
  }
  return state_->block->origins[state_->first_row + row];
}

std::string Batch::describe(std::size_t row) const { return state_->block->source->describe(origin(row).index); }

}  // namespace penstock
