// Rows of equal shape are copied as they are; smaller ones into a block that has been filled with the padding before.
#include <penstock/pipeline/stage/stack.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/error.h>

namespace penstock::stage {

using engine::Charge;
using engine::Element;

namespace {

void fill(std::byte* to, std::size_t count, const std::array<std::byte, 8>& element, std::size_t element_bytes) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * element_bytes, element.data(), element_bytes);
}

// Copies a dense `from` of the shape `small` into the corner of a dense `to` of the shape `large`.
void copy_corner(const std::byte* from, const Shape& small, std::byte* to, const Shape& large, std::size_t bytes,
                 std::size_t dim = 0) {
  std::size_t small_step = bytes;  // of one index of this dimension
  std::size_t large_step = bytes;
  bool dense = true;
  for (std::size_t d = dim + 1; d < small.rank(); ++d) {
    small_step *= static_cast<std::size_t>(small[d]);
    large_step *= static_cast<std::size_t>(large[d]);
    dense = dense && small[d] == large[d];
  }
  const std::size_t count = dim < small.rank() ? static_cast<std::size_t>(small[dim]) : 1;
  if (dense) {
    if (count * small_step != 0) std::memcpy(to, from, count * small_step);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    copy_corner(from + i * small_step, small, to + i * large_step, large, bytes, dim + 1);
  }
}

std::size_t bytes_of(DataType type, const Shape& shape) {
  return static_cast<std::size_t>(shape.element_count()) * byte_size(type);
}

}  // namespace

Stacker::Stacker(engine::StreamContext& context, std::string stage, std::uint64_t kind, std::vector<RowShape> shapes)
    : stage_(std::move(stage)),
      kind_(kind),
      shapes_(std::move(shapes)),
      producing_(context, stage_),
      counter_(context.counter(stage_)) {}

Shape Stacker::common_shape(Rows rows, std::size_t field) const {
  const Shape& first = rows.front()->sample.tensors()[field].shape();
  if (shapes_.empty() || !shapes_[field].padding) {
    for (const Element* const row : rows) {
      const Shape& shape = row->sample.tensors()[field].shape();
      if (shape == first) continue;
      throw InvalidArgument("field \"" + rows.front()->sample.names()[field] + "\" is " + first.to_string() +
                            " in one sample and " + shape.to_string() + " in another, and rows need one shape");
    }
    return first;
  }
  const Shape& wanted = shapes_[field].shape;
  std::vector<std::int64_t> dims(wanted.dims().begin(), wanted.dims().end());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != Shape::kUnknown) continue;
    for (const Element* const row : rows) dims[d] = std::max(dims[d], row->sample.tensors()[field].shape()[d]);
  }
  return Shape(std::span<const std::int64_t>(dims));
}

Tensor Stacker::stacked(Rows rows, std::size_t field, const Shape& row_shape, std::size_t capacity) const {
  const DataType type = rows.front()->sample.tensors()[field].type();
  const std::size_t row_bytes = bytes_of(type, row_shape);
  const std::shared_ptr<std::byte> block = engine::make_aligned(row_bytes * capacity);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tensor& tensor = rows[i]->sample.tensors()[field];
    std::byte* const to = block.get() + i * row_bytes;
    if (tensor.shape() == row_shape) {
      if (row_bytes != 0) std::memcpy(to, tensor.data(), row_bytes);
      continue;
    }
    fill(to, row_bytes / byte_size(type), *shapes_[field].padding, byte_size(type));
    copy_corner(tensor.data(), tensor.shape(), to, row_shape, byte_size(type));
  }
  std::memset(block.get() + rows.size() * row_bytes, 0, (capacity - rows.size()) * row_bytes);
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(capacity)};
  dims.insert(dims.end(), row_shape.dims().begin(), row_shape.dims().end());
  return Tensor(type, Shape(std::span<const std::int64_t>(dims)), block, block.get());
}

std::optional<Element> Stacker::stack(Rows rows, std::size_t capacity) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Shape> shapes;
  std::uint64_t bytes = 0;
  const Sample& first = rows.front()->sample;
  for (std::size_t f = 0; f < first.tensors().size(); ++f) {
    shapes.push_back(common_shape(rows, f));
    bytes += bytes_of(first.tensors()[f].type(), shapes.back()) * capacity;
  }
  Charge charge = producing_.charge(bytes);
  if (!charge && bytes != 0) return std::nullopt;
  Element out = joined(kind_, rows);
  std::vector<Tensor> tensors;
  for (std::size_t f = 0; f < shapes.size(); ++f) tensors.push_back(stacked(rows, f, shapes[f], capacity));
  out.sample = Sample(first.names(), std::move(tensors), first.origin());
  for (const Element* const row : rows) out.row_origins.push_back(row->origins);
  out.charge = std::move(charge);
  counter_.add(1, std::chrono::steady_clock::now() - begin, bytes);
  return out;
}

Element joined(std::uint64_t kind, Rows rows) {
  Element out;
  std::vector<std::uint64_t> lineages;
  for (const Element* const row : rows) {
    lineages.push_back(row->lineage);
    out.origins.insert(out.origins.end(), row->origins.begin(), row->origins.end());
  }
  out.lineage = engine::joined_lineage(kind, lineages);
  return out;
}

Element failed_or_skipped(const engine::StreamContext& context, Element of, const std::string& stage,
                          std::exception_ptr error) {
  Element out = engine::failed(std::move(of), stage, std::move(error));
  if (context.skip_errors) out.kind = Element::Kind::kSkipped;
  return out;
}

Schema stacked_schema(const std::string& stage, const Schema& row, std::int64_t leading) {
  std::vector<Field> fields = row.fields();
  for (Field& field : fields) {
    if (field.shape.rank() == Shape::kMaxRank) {
      throw InvalidArgument(stage + ": field \"" + field.name + "\" has " + std::to_string(Shape::kMaxRank) +
                            " dimensions, which leaves none for the " + stage);
    }
    std::vector<std::int64_t> dims{leading};
    dims.insert(dims.end(), field.shape.dims().begin(), field.shape.dims().end());
    field.shape = Shape(std::span<const std::int64_t>(dims));
  }
  return Schema(std::move(fields));
}

std::optional<std::uint64_t> batch_count(std::optional<std::uint64_t> elements, std::size_t size, LastBatch last) {
  if (!elements) return std::nullopt;
  return *elements / size + (*elements % size != 0 && last != LastBatch::kDrop ? 1 : 0);
}

void require_whole_batches(const std::string& stage, std::optional<std::uint64_t> elements, std::size_t size) {
  const std::string remedy = "; keep or drop them (LastBatch::kKeep, LastBatch::kDrop)";
  if (!elements) {
    throw InvalidArgument(stage + ": the number of samples here is not known, so some may be left that fill no batch" +
                          remedy);
  }
  if (*elements % size == 0) return;
  throw InvalidArgument(stage + ": " + std::to_string(*elements) + " samples an epoch do not divide into batches of " +
                        std::to_string(size) + ", " + std::to_string(*elements % size) + " would be left" + remedy);
}

std::string last_text(LastBatch last) {
  switch (last) {
    case LastBatch::kKeep:
      return "";
    case LastBatch::kDrop:
      return ", drop";
    case LastBatch::kPad:
      return ", pad";
    case LastBatch::kRefuse:
      return ", refuse";
  }
  return "";
}

std::int64_t leading_dimension(std::size_t size, LastBatch last) noexcept {
  return last == LastBatch::kDrop || last == LastBatch::kPad ? static_cast<std::int64_t>(size) : Shape::kUnknown;
}

}  // namespace penstock::stage
