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

namespace {

void require_row(const Batch& batch, std::size_t row) {
  if (row < batch.size()) return;
  throw InvalidArgument("batch: row " + std::to_string(row) + " of " + std::to_string(batch.size()));
}

}  // namespace

Origin Batch::origin(std::size_t row) const {
  require_row(*this, row);
  const engine::LentBlock& block = *state_->block;
  const std::size_t at = state_->first_row + row;
  if (!block.order) return block.origins[at];
  order::Placed placed;
  block.order->fill_indices(block.epoch, block.slot + at, {&placed, 1});
  return {0, placed.index};
}

std::vector<Origin> Batch::origins(std::size_t row) const {
  require_row(*this, row);
  if (state_->block->row_origins.empty()) return {origin(row)};
  return state_->block->row_origins[state_->first_row + row];
}

std::string Batch::describe(std::size_t row) const {
  const Origin from = origin(row);
  const engine::LentBlock& block = *state_->block;
  if (!block.sources) return block.source->describe(from.index);
  if (from.source < block.sources->size() && (*block.sources)[from.source]) {
    return (*block.sources)[from.source]->describe(from.index);
  }
  return "sample " + std::to_string(from.index);
}

}  // namespace penstock
