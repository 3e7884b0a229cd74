// Buffers grow to the largest row they have seen, and not further: a row that fits max_sample_bytes then fits the
// loader's reserve when nothing else is held.
#include <penstock/pipeline/engine/row_buffers.h>

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::engine {
void RowBuffers::begin_row(std::uint64_t read_bytes, std::span<const Place> rows) {
  rows_ = rows;
  read_bytes_ = read_bytes;
  value_bytes_ = 0;
  scratch_most_ = 0;
  scratch_now_ = 0;
  scratch_chunk_ = 0;
  scratch_used_ = 0;
  held_bytes_ = 0;
  written_bytes_ = 0;
  refused_ = false;
  written_.clear();
  for (FieldBuffers& field : fields_) {
    field.written = false;
    for (Buffer& buffer : field.buffers) buffer.row_bytes = 0;
  }
}

void RowBuffers::begin_map(std::span<const std::int32_t> destinations) {
  destinations_ = destinations;
  for (const std::uint32_t field : written_) fields_[field].written = false;
  written_.clear();
  if (scratch_now_ == 0) return;
  // Several chunks become one when the next map asks for their sum at once; the pieces are not worth keeping.
  if (scratch_.size() > 1) scratch_.clear();
  scratch_chunk_ = 0;
  scratch_used_ = 0;
  scratch_now_ = 0;
}

void RowBuffers::end_row() {
  held_.clear();
  held_charges_.clear();
}

void RowBuffers::release() {
  fields_.clear();
  written_.clear();
  scratch_.clear();
  scratch_chunk_ = 0;
  scratch_used_ = 0;
  scratch_now_ = 0;
}

void RowBuffers::require(std::uint64_t more_bytes) {
  const std::uint64_t before = needed_bytes();
  if (before <= max_sample_bytes_ && more_bytes <= max_sample_bytes_ - before) return;
  throw DataError(ErrorKind::kTooLarge, "the sample needs at least " + std::to_string(before + more_bytes) +
                                            " bytes on its way, the most allowed is " +
                                            std::to_string(max_sample_bytes_) + " (LoaderOptions::max_sample_bytes)");
}

ChargedMemory RowBuffers::take(std::size_t bytes) {
  ChargedMemory taken{charger_(bytes), {}};
  if (!taken.charge) {
    refused_ = true;
    throw NoRoom{};
  }
  taken.memory = make_aligned(bytes);
  return taken;
}

std::byte* RowBuffers::value(std::size_t field, std::size_t bytes) {
  written_bytes_ += bytes;
  if (field < destinations_.size() && destinations_[field] >= 0) {
    const Place& place = rows_[static_cast<std::size_t>(destinations_[field])];
    if (place.bytes == bytes) return place.data;
  }
  if (field >= fields_.size()) fields_.resize(field + 1);
  FieldBuffers& buffers = fields_[field];
  if (!buffers.written) {
    buffers.written = true;
    buffers.current ^= 1;
    written_.push_back(static_cast<std::uint32_t>(field));
  }
  Buffer& buffer = buffers.buffers[buffers.current];
  if (bytes > buffer.row_bytes) {
    require(bytes - buffer.row_bytes);
    value_bytes_ += bytes - buffer.row_bytes;
    buffer.row_bytes = bytes;
  }
  if (bytes > buffer.capacity || !buffer.owned.memory) {
    buffer.owned = {};
    buffer.capacity = 0;
    buffer.owned = take(bytes);
    buffer.capacity = bytes;
  }
  return buffer.owned.memory.get();
}

std::byte* RowBuffers::scratch(std::size_t bytes) {
  const std::size_t needed = aligned(bytes);
  const std::uint64_t most = std::max<std::uint64_t>(scratch_most_, scratch_now_ + bytes);
  require(most - scratch_most_);
  scratch_most_ = most;
  scratch_now_ += bytes;
  while (scratch_chunk_ < scratch_.size()) {
    Buffer& chunk = scratch_[scratch_chunk_];
    if (chunk.capacity - scratch_used_ >= bytes) {
      std::byte* const data = chunk.owned.memory.get() + scratch_used_;
      scratch_used_ = std::min(chunk.capacity, scratch_used_ + needed + kMemorySlack);
      return data;
    }
    ++scratch_chunk_;
    scratch_used_ = 0;
  }
  // The only chunk is replaced when nothing of this map lies in it.
  if (scratch_now_ == bytes) scratch_.clear();
  Buffer chunk;
  chunk.owned = take(bytes);
  chunk.capacity = bytes;
  scratch_.push_back(std::move(chunk));
  scratch_chunk_ = scratch_.size() - 1;
  scratch_used_ = std::min(bytes, needed + kMemorySlack);
  return scratch_.back().owned.memory.get();
}

void RowBuffers::hold(Tensor tensor) {
  const std::uint64_t bytes = tensor.size_bytes();
  require(bytes);
  held_bytes_ += bytes;
  written_bytes_ += bytes;
  Charge charge = charger_(bytes);
  if (!charge) {
    refused_ = true;
    throw NoRoom{};
  }
  held_charges_.push_back(std::move(charge));
  held_.push_back(std::move(tensor));
}

}  // namespace penstock::engine
