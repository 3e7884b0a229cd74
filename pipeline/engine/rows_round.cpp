// What the rows of a block go through once they have been read: the maps, the cache, and memory of their own.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <penstock/pipeline/engine/rows_block.h>
#include <penstock/pipeline/engine/sample_failure.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {

/// What a round has done, for the report: the source's part, then each map's.
struct RowsBlock::Laps {
  using Clock = std::chrono::steady_clock;
  struct Lap {
    std::uint64_t count = 0;
    std::uint64_t ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t waited_ns = 0;
  };
  explicit Laps(std::size_t maps) : laps(maps + 1), last(Clock::now()) {}
  std::uint64_t lap_ns() {
    const Clock::time_point now = Clock::now();
    return static_cast<std::uint64_t>((now - std::exchange(last, now)).count());
  }
  std::vector<Lap> laps;
  Clock::time_point last;
};

void RowsBlock::run_round() {
  count_read();
  const RowsProgram& program = work_->program;
  const auto begin = Laps::Clock::now();
  RowBuffers buffers([this](std::uint64_t bytes) { return work_->charge(single_, bytes); },
                     work_->context.max_sample_bytes);
  Row values(buffers);
  std::vector<RowBuffers::Place> places;
  if (program.in_place) {
    for (const Field& field : program.output.fields()) {
      places.push_back({nullptr, static_cast<std::size_t>(field.shape.element_count()) * byte_size(field.type)});
    }
  }
  Laps laps(program.maps.size());
  std::size_t waiting = 0;
  std::uint64_t done = 0;
  std::uint64_t waited_ns = 0;
  for (RowsRow& row : rows) {
    if (ended()) break;
    if (row.state == RowsRow::State::kDone || row.state == RowsRow::State::kTodo) continue;
    if (row.state == RowsRow::State::kWaiting) {
      ++waiting;
      continue;
    }
    const bool was_read = work_->leaf && row.state != RowsRow::State::kHit && row.state != RowsRow::State::kRefused;
    waited_ns += row.waited_ns + row.called_ns;
    if (was_read) {
      ++laps.laps.front().count;
      laps.laps.front().ns += row.called_ns;
      laps.laps.front().waited_ns += row.waited_ns;
      if (row.state == RowsRow::State::kRead) {
        for (const Cell& cell : row.cells) laps.laps.front().bytes += cell.size_bytes();
      }
    }
    row.waited_ns = 0;
    row.called_ns = 0;
    if (row.state == RowsRow::State::kFailed) {
      fail_row(row, row.failed_stage, std::exchange(row.error, nullptr));
    } else if (row.state != RowsRow::State::kRefused) {
      run_row(row, buffers, values, places, laps);
    }
    if (row.state == RowsRow::State::kRefused) {
      if (!refused_) {
        wanted_working_ = row.wanted_working;
        wanted_result_ = row.wanted_result;
      }
      refused_ = true;
      put_back(row);
    } else {
      ++done;
    }
  }
  buffers.release();
  // The last stage first: a trace lays each before the one it has.
  for (std::size_t m = program.maps.size(); m-- > 0;) {
    const Laps::Lap& lap = laps.laps[m + 1];
    if (lap.count != 0) program.maps[m].counter->add(lap.count, std::chrono::nanoseconds(lap.ns), lap.bytes);
  }
  if (work_->leaf) {
    const Laps::Lap& lap = laps.laps.front();
    work_->leaf->counter->add(lap.count, std::chrono::nanoseconds(lap.ns), lap.bytes,
                              std::chrono::nanoseconds(lap.waited_ns));
  }
  if (done != 0) {
    const auto ran = static_cast<std::uint64_t>((Laps::Clock::now() - begin).count());
    work_->count_cost((ran + waited_ns) / done);
  }
  end_round(waiting);
}

void RowsBlock::make_result(RowsRow& row) const {
  if (row.result) return;
  const RowsProgram& program = work_->program;
  Charge charge = work_->charge_result(single_, program.result_bytes);
  if (!charge) {
    row.wanted_result = std::max<std::uint64_t>(1, program.result_bytes);
    throw NoRoom{};
  }
  row.result = std::shared_ptr<std::byte>(make_aligned(program.block_bytes).release(), AlignedDelete{});
  row.result_charge = std::move(charge);
}

void RowsBlock::run_row(RowsRow& row, RowBuffers& buffers, Row& values, std::vector<RowBuffers::Place>& places,
                        Laps& laps) {
  const RowsProgram& program = work_->program;
  std::int32_t stage = -1;
  buffers.begin_row(row.read_bytes, places);
  laps.lap_ns();
  try {
    run_maps(row, buffers, values, places, laps, stage);
    if (!values.dropped()) finish_row(row, values, stage);
    row.dropped = values.dropped();
    if (row.dropped) row.element = {};
    row.state = RowsRow::State::kDone;
  } catch (...) {
    // A user's function may have caught and replaced NoRoom: what counts is that the budget had no room.
    if (buffers.refused() || row.wanted_result != 0) {
      row.state = RowsRow::State::kRefused;
      if (buffers.refused()) row.wanted_working = buffers.needed_bytes();
      if (program.in_place) row.wanted_result = std::max(row.wanted_result, program.result_bytes);
    } else {
      fail_row(row, stage, std::current_exception());
    }
  }
  buffers.end_row();
  if (single_) buffers.release();
  if (row.state == RowsRow::State::kDone) let_go(row);
}

void RowsBlock::run_maps(RowsRow& row, RowBuffers& buffers, Row& values, std::vector<RowBuffers::Place>& places,
                         Laps& laps, std::int32_t& stage) {
  const RowsProgram& program = work_->program;
  const std::size_t count = program.maps.size();
  const bool hit = row.state == RowsRow::State::kHit;
  const std::size_t first = hit ? program.cache_at : 0;
  if (program.writes_in_place[first]) {
    make_result(row);
    for (std::size_t f = 0; f < places.size(); ++f) places[f].data = row.result.get() + program.offsets[f];
  }
  if (hit) {
    set_up_kept(row, values);
  } else {
    set_up(row, values);
  }
  Draw no_draw{0, 0, 0, 0};
  for (std::size_t m = first; m <= count; ++m) {
    if (program.store && m == program.cache_at && !hit) {
      // A row that has been loaded goes on exactly as one that was found: with the kept values, and nothing else held.
      commit(row, values);
      set_up_kept(row, values);
      row.memory.clear();
      row.read_bytes = 0;
      buffers.end_row();
      if (single_) buffers.release();
      buffers.begin_row(0, places);
      laps.lap_ns();
    }
    if (m == count) break;
    const RowsMap& map = program.maps[m];
    stage = static_cast<std::int32_t>(m);
    buffers.begin_map(map.destinations);
    if (map.draws) {
      Draw draw(work_->context.seed, pass_.epoch, row.element.lineage, map.draw_number);
      map.body(values, draw);
    } else {
      map.body(values, no_draw);
    }
    if (buffers.refused()) throw NoRoom{};
    Laps::Lap& lap = laps.laps[m + 1];
    ++lap.count;
    lap.ns += laps.lap_ns();
    if (values.dropped()) return;
    for (const std::uint32_t field : map.written) lap.bytes += values.cell(field).size_bytes();
  }
}

void RowsBlock::set_up(const RowsRow& row, Row& values) const {
  const std::size_t fields = work_->program.input.size();
  const Element& element = row.element;
  values.reset(element.origins.empty() ? Origin{} : element.origins.front(), fields);
  for (std::size_t f = 0; f < fields; ++f) {
    if (work_->leaf) {
      if (!row.cells[f].data && row.cells[f].size_bytes() != 0) {
        throw DataError(ErrorKind::kOther, "the source gave no value for \"" + work_->program.input[f].name + "\"");
      }
      values.set_cell(f, row.cells[f]);
    } else {
      const Tensor& tensor = element.sample.tensors()[f];
      values.set_cell(f, {tensor.data(), tensor.type(), tensor.shape()});
    }
  }
}

void RowsBlock::set_up_kept(const RowsRow& row, Row& values) const {
  const Schema& cached = work_->program.cached;
  const std::vector<Tensor>& tensors = row.hit.tensors();
  values.reset(row.element.origins.front(), cached.size());
  for (std::size_t f = 0; f < cached.size(); ++f) {
    const Field& field = cached[f];
    if (f >= tensors.size() || row.hit.names()[f] != field.name || tensors[f].type() != field.type ||
        !field.shape.accepts(tensors[f].shape())) {
      throw DataError(ErrorKind::kCorrupt, "the cache gave a sample with other fields than " + cached.to_string());
    }
    values.set_cell(f, {tensors[f].data(), tensors[f].type(), tensors[f].shape()});
  }
}

void RowsBlock::commit(RowsRow& row, const Row& values) {
  const Schema& cached = work_->program.cached;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (std::size_t f = 0; f < cached.size(); ++f) {
    const Cell& cell = values.cell(f);
    const Field& field = cached[f];
    if (cell.type != field.type || !field.shape.accepts(cell.shape)) {
      throw InvalidArgument("field \"" + field.name + "\" is " + to_string(cell.type) + " " + cell.shape.to_string() +
                            " before the cache, expected " + to_string(field.type) + " " + field.shape.to_string());
    }
    names.push_back(field.name);
    tensors.push_back(Tensor::copy_of_bytes(cell.type, cell.shape, {cell.data, cell.size_bytes()}));
  }
  row.hit = Sample(std::move(names), std::move(tensors), values.origin());
  row.owned = false;
  work_->program.store->commit(row.key, row.hit);
}

// What lies in memory that can be shared is not copied.
std::optional<Tensor> RowsBlock::shared_tensor(const RowsRow& row, const Cell& cell) const {
  const auto find = [&](const std::vector<Tensor>& tensors) -> std::optional<Tensor> {
    for (const Tensor& tensor : tensors) {
      if (tensor.data() == cell.data && tensor.type() == cell.type && tensor.shape() == cell.shape) return tensor;
    }
    return std::nullopt;
  };
  if (std::optional<Tensor> kept = find(row.hit.tensors())) return kept;
  if (!work_->leaf) return find(row.element.sample.tensors());
  for (std::size_t f = 0; f < row.cells.size(); ++f) {
    if (row.borrowed[f] && row.cells[f].data == cell.data) {
      return Tensor(cell.type, cell.shape, work_->leaf->source, cell.data);
    }
  }
  return std::nullopt;
}

void RowsBlock::finish_row(RowsRow& row, const Row& values, std::int32_t& stage) const {
  const RowsProgram& program = work_->program;
  const std::size_t count = program.output.size();
  std::vector<std::optional<Tensor>> found(count);
  std::uint64_t bytes = 0;
  std::size_t copied = 0;  // bytes of a block for the fields that are not shared
  for (std::size_t f = 0; f < count; ++f) {
    const Cell& cell = values.cell(f);
    const Field& field = program.output[f];
    if (cell.type != field.type || !field.shape.accepts(cell.shape)) {
      stage = program.final_maps[f];
      throw InvalidArgument("field \"" + field.name + "\" is " + to_string(cell.type) + " " + cell.shape.to_string() +
                            ", " + program.expected + to_string(field.type) + " " + field.shape.to_string());
    }
    found[f] = shared_tensor(row, cell);
    bytes += cell.size_bytes();
    if (!found[f]) copied += aligned(cell.size_bytes());
  }
  if (program.in_place) {
    if (copied != 0 && !row.result) make_result(row);
  } else {
    const std::uint64_t most = work_->context.max_sample_bytes;
    if (bytes > most) {
      throw DataError(ErrorKind::kTooLarge, "the sample takes " + std::to_string(bytes) +
                                                " bytes, the most allowed is " + std::to_string(most) +
                                                " (LoaderOptions::max_sample_bytes)");
    }
  }
  if (!row.result_charge) {
    row.result_charge = work_->charge_result(single_, bytes);
    if (!row.result_charge) {
      row.wanted_result = std::max<std::uint64_t>(1, bytes);
      throw NoRoom{};
    }
  }
  if (!program.in_place && copied != 0) {
    row.result = std::shared_ptr<std::byte>(make_aligned(copied).release(), AlignedDelete{});
  }
  std::vector<Tensor> tensors;
  tensors.reserve(count);
  std::size_t next = 0;
  for (std::size_t f = 0; f < count; ++f) {
    const Cell& cell = values.cell(f);
    if (found[f]) {
      tensors.push_back(std::move(*found[f]));
      continue;
    }
    if (!row.result) {  // no bytes at all
      tensors.push_back(Tensor::copy_of_bytes(cell.type, cell.shape, {}));
      continue;
    }
    std::byte* const place = row.result.get() + (program.in_place ? program.offsets[f] : next);
    next += aligned(cell.size_bytes());
    if (place != cell.data && cell.size_bytes() != 0) std::memcpy(place, cell.data, cell.size_bytes());
    tensors.emplace_back(cell.type, cell.shape, std::shared_ptr<const void>(row.result), place);
  }
  row.element.sample = Sample(program.names, std::move(tensors), values.origin());
  row.element.charge = std::move(row.result_charge);
}

void RowsBlock::fail_row(RowsRow& row, std::int32_t stage, std::exception_ptr error) {
  const std::string& name = work_->program.stage_name(stage);
  if (row.owned) {
    row.owned = false;
    const Origin& origin = row.element.origins.front();
    const Source* const source =
        work_->leaf ? work_->leaf->source.get() : work_->context.sources.at(origin.source).get();
    work_->program.store->fail(row.key, describe_failure(name, origin.index, source, error).error());
  }
  row.element = failed(std::move(row.element), name, std::move(error));
  if (work_->context.skip_errors) row.element.kind = Element::Kind::kSkipped;
  row.state = RowsRow::State::kDone;
  let_go(row);
}

// All that it held on its way.
void RowsBlock::let_go(RowsRow& row) const {
  row.memory.clear();
  row.read_bytes = 0;
  row.result.reset();
  row.result_charge = {};
  row.hit = {};
}

// Leaves the row as if it had not begun.
void RowsBlock::put_back(RowsRow& row) {
  let_go(row);
  row.state = RowsRow::State::kTodo;
  if (!row.owned) return;
  row.owned = false;
  work_->program.store->abandon(row.key);
}

}  // namespace penstock::engine
