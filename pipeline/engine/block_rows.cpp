// One row of a block: through the maps, past the cache, into its place in the batch; and how it ends when it cannot.
#include <cstring>
#include <string>
#include <utility>

#include <penstock/pipeline/engine/loader_core.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

// Only the dimensions that are there: most fields have few.
bool same_shape(const Shape& a, const Shape& b) noexcept {
  if (a.rank() != b.rank()) return false;
  for (std::size_t i = 0; i < a.rank(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace

std::byte* LoaderCore::place(const Block& block, std::size_t row, std::size_t field) const noexcept {
  const BatchField& at = layout_->fields[field];
  return block.batch->lent->lease.data() + at.offset + (block.first_row + row) * at.row_stride;
}

void LoaderCore::run_row(BlockRow& row, RowWorker& worker, StageClock& clock) {
  for (std::size_t f = 0; f < worker.places.size(); ++f) worker.places[f].data = place(*row.block, row.number, f);
  worker.buffers.begin_row(row.read_bytes, worker.places);
  std::int32_t stage = kReadStage;
  clock.begin_row();
  try {
    set_up_row(row, worker.row);
    run_maps(row, worker, clock, stage);
    write_row(worker, stage);
    row.state = RowState::kDone;
  } catch (...) {
    // A user's function may have caught and replaced NoRoom: what counts is that the budget had no room.
    if (worker.buffers.refused()) {
      row.state = RowState::kRefused;
      row.wanted_bytes = worker.buffers.needed_bytes();
    } else {
      fail_row(row, stage, std::current_exception());
    }
  }
  clock.end_row();
  worker.buffers.end_row();
  row.memory.clear();
  row.read_bytes = 0;
  if (row.cache) row.cache->hit = {};
}

void LoaderCore::set_up_row(const BlockRow& row, Row& target) const {
  if (row.state == RowState::kHit) {
    set_up_kept(row, target);
    return;
  }
  target.reset({0, row.placed.index}, chain_.source_fields);
  const std::size_t first = row.number * chain_.source_fields;
  for (std::size_t f = 0; f < chain_.source_fields; ++f) target.set_cell(f, row.block->cells[first + f]);
}

void LoaderCore::set_up_kept(const BlockRow& row, Row& target) const {
  const Sample& hit = row.cache->hit;
  target.reset({0, row.placed.index}, chain_.cached.size());
  for (std::size_t f = 0; f < chain_.cached.size(); ++f) {
    const Field& field = chain_.cached[f];
    if (f >= hit.tensors().size() || hit.names()[f] != field.name || hit.tensors()[f].type() != field.type ||
        !field.shape.accepts(hit.tensors()[f].shape())) {
      throw DataError(ErrorKind::kCorrupt,
                      "the cache gave a sample with other fields than " + chain_.cached.to_string());
    }
    const Tensor& tensor = hit.tensors()[f];
    target.set_cell(f, {tensor.data(), tensor.type(), tensor.shape()});
  }
}

void LoaderCore::run_maps(BlockRow& row, RowWorker& worker, StageClock& clock, std::int32_t& stage) {
  const std::size_t count = chain_.maps.size();
  for (std::size_t m = row.state == RowState::kHit ? chain_.cache_at : 0; m < count; ++m) {
    if (row.cache && m == chain_.cache_at && row.state != RowState::kHit) pass_cache(row, worker);
    const ChainMap& map = chain_.maps[m];
    stage = static_cast<std::int32_t>(m);
    worker.buffers.begin_map(map.destinations);
    if (map.draws) {
      Draw draw(options_.seed, row.block->batch->epoch, row.placed.lineage, map.draw_number);
      map.body(worker.row, draw);
    } else {
      map.body(worker.row, worker.no_draw);
    }
    if (worker.buffers.refused()) throw NoRoom{};
    clock.lap(m, worker.buffers.take_written_bytes());
  }
  if (row.cache && chain_.cache_at == count && row.state != RowState::kHit) pass_cache(row, worker);
}

// A row that has been loaded goes on exactly as one that was found: with the kept values, and nothing else held. So the
// state of the cache cannot show, not even in what is too large.
void LoaderCore::pass_cache(BlockRow& row, RowWorker& worker) {
  commit(row, worker.row);
  set_up_kept(row, worker.row);
  row.memory.clear();
  row.read_bytes = 0;
  worker.buffers.end_row();
  if (row.block->one_by_one) worker.buffers.release();
  worker.buffers.begin_row(0, worker.places);
}

void LoaderCore::write_row(const RowWorker& worker, std::int32_t& stage) const {
  for (std::size_t f = 0; f < layout_->fields.size(); ++f) {
    const BatchField& target = layout_->fields[f];
    const Cell& cell = worker.row.cell(f);
    if (cell.type != target.field.type || !same_shape(cell.shape, target.field.shape)) {
      stage = chain_.final_fields[f];
      throw InvalidArgument("field \"" + target.field.name + "\" is " + to_string(cell.type) + " " +
                            cell.shape.to_string() + ", rows of the batch are " + to_string(target.field.type) + " " +
                            target.field.shape.to_string());
    }
    std::byte* const data = worker.places[f].data;
    if (cell.data != data && target.row_bytes != 0) std::memcpy(data, cell.data, target.row_bytes);
  }
}

void LoaderCore::commit(BlockRow& row, const Row& values) {
  RowCache& cache = *row.cache;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (std::size_t f = 0; f < chain_.cached.size(); ++f) {
    const Cell& cell = values.cell(f);
    const Field& field = chain_.cached[f];
    if (cell.type != field.type || !field.shape.accepts(cell.shape)) {
      throw InvalidArgument("field \"" + field.name + "\" is " + to_string(cell.type) + " " + cell.shape.to_string() +
                            " before the cache, expected " + to_string(field.type) + " " + field.shape.to_string());
    }
    names.push_back(field.name);
    tensors.push_back(Tensor::copy_of_bytes(cell.type, cell.shape, {cell.data, cell.size_bytes()}));
  }
  cache.hit = Sample(std::move(names), std::move(tensors), values.origin());
  cache.owned = false;
  chain_.store->commit(cache.key, cache.hit);
}

void LoaderCore::fail_row(BlockRow& row, std::int32_t stage, std::exception_ptr error) {
  row.failed_stage = stage;
  row.error = std::move(error);
  row.state = RowState::kDone;
  row.memory.clear();
  row.read_bytes = 0;
  if (row.cache && row.cache->owned) {
    row.cache->owned = false;
    chain_.store->fail(row.cache->key, sample_error({0, stage, row.placed.index, row.error}));
  }
  replace_row(row);
}

// Leaves the row as if it had not begun.
void LoaderCore::put_back(BlockRow& row) {
  row.memory.clear();
  row.read_bytes = 0;
  row.state = RowState::kTodo;
  if (!row.cache) return;
  row.cache->hit = {};
  if (!row.cache->owned) return;
  row.cache->owned = false;
  chain_.store->abandon(row.cache->key);
}

}  // namespace penstock::engine
