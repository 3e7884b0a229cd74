// A mid-batch position is the state before the batch and how many of its elements to pull again: so nothing is saved
// while a batch fills.
#include <penstock/pipeline/engine/stream_batcher.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/engine/fault_log.h>
#include <penstock/pipeline/engine/sample_failure.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

// Place of BatchStart::again among the numbers of a cursor.
constexpr std::size_t kAgainAt = 3;

std::string of_field(const Field& field, const Tensor& tensor) {
  return "field \"" + field.name + "\" is " + to_string(tensor.type()) + " " + tensor.shape().to_string();
}

}  // namespace

BatchStart BatchStart::read(CursorReader& cursor) {
  BatchStart start;
  start.fresh = cursor.number() != 0;
  start.index = cursor.number();
  start.slot = cursor.number();
  start.again = cursor.number();
  return start;
}

void BatchStart::write(Cursor& cursor) const {
  cursor.numbers.insert(cursor.numbers.end(), {fresh ? std::uint64_t{1} : std::uint64_t{0}, index, slot, again});
}

void StreamBatcher::begin_epoch(std::uint64_t epoch, const BatchStart& start, std::shared_ptr<const Cursor> cursor) {
  epoch_ = epoch;
  index_ = start.index;
  slot_ = start.slot;
  elements_ = form_.rows ? start.slot : start.index;
  before_ = start.fresh ? nullptr : std::move(cursor);
  again_ = start.again;
  first_row_ = static_cast<std::size_t>(start.again);
  resumed_ = start.index != 0 || start.slot != 0 || start.again != 0;
  delivered_ = false;
}

const Source* StreamBatcher::source(std::uint32_t number) const noexcept {
  return number < sources_->size() ? (*sources_)[number].get() : nullptr;
}

std::exception_ptr StreamBatcher::error_of(const Element& element) const {
  const Failure& failure = *element.failure;
  return describe_failure(failure.stage, failure.origin.index, source(failure.origin.source), failure.error).error();
}

bool StreamBatcher::place(Element& element) {
  if (!element.is_value() && (element.kind == Element::Kind::kSkipped || policy_.action == OnError::kSkip)) {
    if (again_ == 0) skip(element);
    return true;
  }
  if (again_ > 0) {
    --again_;
    return true;
  }
  if (filling_ && filling_->complete) deliver(false);
  return form_.rows ? place_row(element) : place_whole(element);
}

void StreamBatcher::skip(const Element& element) {
  const Failure& failure = *element.failure;
  const SampleFailure described =
      describe_failure(failure.stage, failure.origin.index, source(failure.origin.source), failure.error);
  if (failures_++ == policy_.limit) {
    fail_stream(error_limit_reached(policy_.limit, described.error()));
    return;
  }
  faults_.push_back(described.fault(epoch_, index_));
}

StreamBatcher::Filling StreamBatcher::describe_batch() {
  Filling filling;
  filling.index = index_;
  filling.slot = slot_;
  filling.before = before_;
  filling.first_row = filling.end_row = std::exchange(first_row_, 0);
  return filling;
}

bool StreamBatcher::begin_batch(const std::shared_ptr<const BatchLayout>& layout) {
  std::optional<BatchLease> lease = host_.acquire(*layout);
  if (!lease) return false;
  filling_ = describe_batch();
  filling_->lent = std::make_shared<LentBlock>();
  filling_->lent->lease = std::move(*lease);
  filling_->lent->origins.resize(layout->batch_size);
  filling_->lent->layout = layout;
  filling_->lent->sources = sources_;
  filling_->lent->count = count_;
  return true;
}

void StreamBatcher::set_origins(std::size_t row, const std::vector<Origin>& origins) {
  LentBlock& lent = *filling_->lent;
  if (!origins.empty()) lent.origins[row] = origins.front();
  if (origins.size() == 1 && lent.row_origins.empty()) return;
  if (lent.row_origins.empty()) {
    lent.row_origins.resize(lent.origins.size());
    for (std::size_t i = filling_->first_row; i < row; ++i) lent.row_origins[i] = {lent.origins[i]};
  }
  lent.row_origins[row] = origins;
}

// Null, or why the element cannot be a row.
std::exception_ptr StreamBatcher::write_row(const Element& element, std::size_t row) const {
  const BatchLayout& layout = *form_.layout;
  const std::vector<Tensor>& tensors = element.sample.tensors();
  for (std::size_t f = 0; f < layout.fields.size(); ++f) {
    const BatchField& target = layout.fields[f];
    if (f >= tensors.size() || tensors[f].type() != target.field.type || tensors[f].shape() != target.field.shape) {
      const std::string found =
          f < tensors.size() ? of_field(target.field, tensors[f]) : "field \"" + target.field.name + "\" is missing";
      const Origin origin = element.origins.empty() ? Origin{} : element.origins.front();
      return describe_failure(form_.writers[f], origin.index, source(origin.source),
                              std::make_exception_ptr(InvalidArgument(found + ", rows of the batch are " +
                                                                      to_string(target.field.type) + " " +
                                                                      target.field.shape.to_string())))
          .error();
    }
    std::byte* const data = filling_->lent->lease.data() + target.offset + row * target.row_stride;
    if (target.row_bytes != 0) std::memcpy(data, tensors[f].data(), target.row_bytes);
  }
  return nullptr;
}

bool StreamBatcher::place_row(Element& element) {
  if (!filling_ && !begin_batch(form_.layout)) return false;
  const std::size_t row = filling_->end_row++;
  set_origins(row, element.origins);
  std::exception_ptr error = element.is_value() ? write_row(element, row) : error_of(element);
  if (error) filling_->errors.push_back({row, std::move(error)});
  if (filling_->end_row == form_.layout->batch_size) complete();
  return true;
}

// Throws InvalidArgument or DataError when the element is no batch.
std::shared_ptr<const BatchLayout> StreamBatcher::whole_layout(const Element& element) {
  const std::vector<Tensor>& tensors = element.sample.tensors();
  const std::vector<BatchField>& fields = form_.layout->fields;
  if (tensors.size() != fields.size()) {
    throw InvalidArgument("a batch of " + std::to_string(tensors.size()) + " fields, expected " +
                          std::to_string(fields.size()));
  }
  BatchLayout layout;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Tensor& tensor = tensors[f];
    Field field = fields[f].field;
    if (tensor.type() != field.type || tensor.shape().rank() == 0 ||
        !field.shape.accepts(Shape(tensor.shape().dims().subspan(1)))) {
      throw InvalidArgument(of_field(field, tensor) + ", expected " + to_string(field.type) +
                            " with the leading dimension of the batch and then " + field.shape.to_string());
    }
    const auto rows = static_cast<std::size_t>(tensor.shape()[0]);
    if (f > 0 && rows != layout.batch_size) {
      throw InvalidArgument(of_field(field, tensor) + ", but field \"" + fields[0].field.name + "\" has " +
                            std::to_string(layout.batch_size) +
                            " rows: all fields of a batch have the same leading dimension");
    }
    layout.batch_size = rows;
    field.shape = Shape(tensor.shape().dims().subspan(1));
    const std::size_t row_bytes = rows == 0 ? 0 : tensor.size_bytes() / rows;
    layout.fields.push_back({std::move(field), layout.size_bytes, row_bytes, row_bytes});
    layout.size_bytes += aligned(tensor.size_bytes());
  }
  if (layout.size_bytes > most_batch_bytes_) {
    throw DataError(ErrorKind::kTooLarge, "the batch takes " + std::to_string(layout.size_bytes) +
                                              " bytes, the most allowed is " + std::to_string(most_batch_bytes_) +
                                              " (LoaderOptions::max_sample_bytes)");
  }
  if (!last_layout_ || *last_layout_ != layout) last_layout_ = std::make_shared<const BatchLayout>(std::move(layout));
  return last_layout_;
}

bool StreamBatcher::place_whole(Element& element) {
  std::exception_ptr error;
  if (!element.is_value()) {
    error = error_of(element);
  } else {
    try {
      const std::shared_ptr<const BatchLayout> layout = whole_layout(element);
      if (!begin_batch(layout)) return false;
      std::byte* const data = filling_->lent->lease.data();
      for (std::size_t f = 0; f < layout->fields.size(); ++f) {
        const Tensor& tensor = element.sample.tensors()[f];
        if (tensor.size_bytes() != 0) std::memcpy(data + layout->fields[f].offset, tensor.data(), tensor.size_bytes());
      }
      const std::vector<std::vector<Origin>>& origins = element.row_origins;
      // Rows of padding come from nowhere.
      const std::size_t rows = origins.empty() ? layout->batch_size : std::min(origins.size(), layout->batch_size);
      for (std::size_t row = 0; row < rows; ++row) set_origins(row, origins.empty() ? element.origins : origins[row]);
      filling_->end_row = rows;
    } catch (const InvalidArgument&) {
      error = std::current_exception();
    } catch (const DataError&) {
      error = std::current_exception();
    }
    if (error) {
      const Origin origin = element.origins.empty() ? Origin{} : element.origins.front();
      error = describe_failure(form_.stage, origin.index, source(origin.source), std::move(error)).error();
    }
  }
  if (error) {
    filling_ = describe_batch();
    filling_->errors.push_back({0, std::move(error)});
  }
  complete();
  return true;
}

// The batch has all its rows: what comes next belongs to the one after it.
void StreamBatcher::complete() {
  Filling& filling = *filling_;
  filling.complete = true;
  filling.faults = std::exchange(faults_, {});
  ++index_;
  slot_ += filling.end_row;
  elements_ += form_.rows ? filling.end_row : 1;
  auto after = std::make_shared<Cursor>();
  BatchStart{false, index_, slot_, 0}.write(*after);
  host_.save(*after);
  filling.after = after;
  before_ = std::move(after);
  if (form_.elements) deliver(elements_ == *form_.elements);
}

void StreamBatcher::deliver(bool last) {
  Filling filling = std::move(*filling_);
  filling_.reset();
  delivered_ = true;
  const auto position = [&](std::size_t row) -> Position {
    if (filling.complete && row == filling.end_row) {
      if (last) return {epoch_ + 1, 0};
      return {epoch_, filling.slot + row, filling.after};
    }
    auto cursor = std::make_shared<Cursor>();
    if (filling.before) {
      *cursor = *filling.before;
    } else {
      BatchStart{}.write(*cursor);
    }
    cursor->numbers[kAgainAt] = row;
    return {epoch_, filling.slot + row, std::move(cursor)};
  };
  std::vector<StreamResult> results;
  const auto add_rows = [&](std::size_t begin, std::size_t end) {
    StreamResult result;
    result.batch = std::make_shared<Batch::State>();
    result.batch->block = filling.lent;
    result.batch->first_row = begin;
    result.batch->row_count = end - begin;
    result.batch->epoch = epoch_;
    result.batch->index = filling.index;
    result.batch->position = position(end);
    results.push_back(std::move(result));
  };
  std::size_t row = filling.first_row;
  for (RowError& error : filling.errors) {
    if (error.row > row) add_rows(row, error.row);
    StreamResult result;
    result.error = std::move(error.error);
    results.push_back(std::move(result));
    row = error.row + 1;
  }
  if (row < filling.end_row || results.empty()) add_rows(row, filling.end_row);
  results.front().faults = std::move(filling.faults);
  results.back().closes_batch = true;
  host_.deliver(std::move(results));
}

void StreamBatcher::fail_stream(std::exception_ptr error) {
  if (filling_) {
    if (!filling_->complete) filling_->faults = std::exchange(faults_, {});
    deliver(false);
  }
  StreamResult result;
  result.error = std::move(error);
  result.ends_stream = true;
  result.faults = take_faults();
  ended_ = true;
  std::vector<StreamResult> results;
  results.push_back(std::move(result));
  host_.deliver(std::move(results));
}

void StreamBatcher::zero_rows(std::size_t first) {
  const BatchLayout& layout = *form_.layout;
  for (const BatchField& field : layout.fields) {
    const std::size_t bytes = (layout.batch_size - first) * field.row_stride;
    if (bytes != 0) std::memset(filling_->lent->lease.data() + field.offset + first * field.row_stride, 0, bytes);
  }
}

bool StreamBatcher::finish() {
  if (again_ > 0) {
    throw InvalidArgument("loader: the start lies beyond the end of its epoch; it belongs to another plan");
  }
  if (filling_ && !filling_->complete) {
    const bool needed = filling_->index < form_.least_batches;
    if (form_.last == LastBatch::kDrop && !needed) {
      filling_.reset();
    } else if (form_.last == LastBatch::kRefuse) {
      const std::uint64_t all = filling_->slot + filling_->end_row;
      fail_stream(std::make_exception_ptr(
          InvalidArgument("batch: " + std::to_string(all) + " samples an epoch do not divide into batches of " +
                          std::to_string(form_.layout->batch_size) + ", " + std::to_string(filling_->end_row) +
                          " are left; keep or drop them (LastBatch::kKeep, LastBatch::kDrop)")));
      return true;
    } else {
      if (form_.last != LastBatch::kKeep) zero_rows(filling_->end_row);
      complete();
    }
  }
  if (filling_) deliver(index_ >= form_.least_batches);
  while (index_ < form_.least_batches) {
    if (!begin_batch(form_.layout)) return false;
    zero_rows(0);
    complete();
    deliver(index_ >= form_.least_batches);
  }
  return true;
}

}  // namespace penstock::engine
