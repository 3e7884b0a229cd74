// A map runs over all rows before the next one does. When it throws for a row, the rows before that one go on to the
// next map, and the rows after it begin with this one: so every function is called once a row, as row by row.
#include <penstock/pipeline/engine/column_pass.h>

#include <chrono>
#include <cstring>

namespace penstock::engine {
namespace {

bool consecutive(std::span<const order::Placed> placed) {
  for (std::size_t i = 1; i < placed.size(); ++i) {
    if (placed[i].index != placed[0].index + i) return false;
  }
  return true;
}

}  // namespace

ColumnPass::ColumnPass(const Chain& chain, ColumnScratch& scratch, std::span<std::byte* const> places,
                       std::vector<StageTotals::Total>& totals)
    : chain_(chain), scratch_(scratch), places_(places), totals_(totals) {
  scratch_.values.resize(chain.source_fields * kMostRows);
  if (chain.column_scratch > 0) scratch_.between.resize(chain.source_fields * 2 * kMostRows);
}

void ColumnPass::lap(std::size_t stage, std::size_t rows, std::size_t bytes) {
  const Clock::time_point now = Clock::now();
  totals_[stage].count += rows;
  totals_[stage].bytes += bytes;
  totals_[stage].seconds += std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

void ColumnPass::run(std::size_t row_count) {
  const bool in_sequence = consecutive({scratch_.placed.data(), row_count});
  std::size_t row_bytes = 0;
  for (std::size_t f = 0; f < chain_.source_fields; ++f) {
    read(f, row_count, in_sequence);
    row_bytes += chain_.columns[f].row_bytes;
  }
  lap(0, row_count, row_count * row_bytes);
  run_maps(0, row_count, 0);
}

void ColumnPass::read(std::size_t field, std::size_t row_count, bool in_sequence) {
  const SourceColumn& column = chain_.columns[field];
  const order::Placed* const placed = scratch_.placed.data();
  const std::int32_t destination = chain_.source_destinations[field];
  if (destination < 0) {
    const std::byte** const values = scratch_.values.data() + field * kMostRows;
    for (std::size_t i = 0; i < row_count; ++i) values[i] = column.data + placed[i].index * column.row_bytes;
    return;
  }
  std::byte* const out = places_[static_cast<std::size_t>(destination)];
  if (column.row_bytes == 0) return;
  if (in_sequence) {
    std::memcpy(out, column.data + placed[0].index * column.row_bytes, row_count * column.row_bytes);
    return;
  }
  for (std::size_t i = 0; i < row_count; ++i) {
    std::memcpy(out + i * column.row_bytes, column.data + placed[i].index * column.row_bytes, column.row_bytes);
  }
}

void ColumnPass::run_maps(std::size_t row, std::size_t end, std::size_t map) {
  while (row < end && map < chain_.steps.size()) {
    const std::size_t stop = run_map(map, row, end);
    if (stop == end) {
      ++map;
      continue;
    }
    run_maps(row, stop, map + 1);
    row = stop + 1;
  }
}

// Where it stopped: `end`, or the row that failed.
std::size_t ColumnPass::run_map(std::size_t map, std::size_t row, std::size_t end) {
  const ColumnStep& step = chain_.steps[map];
  const std::byte** const values = scratch_.values.data() + step.map.field * kMostRows;
  std::byte* out = nullptr;
  if (step.destination >= 0) {
    out = places_[static_cast<std::size_t>(step.destination)];
  } else {
    out = reinterpret_cast<std::byte*>(scratch_.between.data() + (2 * step.map.field + step.set) * kMostRows);
  }
  ColumnRun run{values, out, row, end};
  try {
    step.map.body(run);
  } catch (...) {
    failures_.push_back({run.row, static_cast<std::int32_t>(map), std::current_exception()});
  }
  for (std::size_t i = row; i < run.row; ++i) values[i] = out + i * step.map.out_bytes;
  lap(map + 1, run.row - row, (run.row - row) * step.map.out_bytes);
  return run.row;
}

}  // namespace penstock::engine
