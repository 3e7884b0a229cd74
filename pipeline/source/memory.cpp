// Two ways to hold the same thing, samples or columns, behind one source that lends out their bytes.
#include <penstock/pipeline/source/memory.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include <xxhash.h>

#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

struct Value {
  Shape shape;
  const std::byte* data;
};

class MemorySource : public Source {
 public:
  MemorySource(Schema schema, std::uint64_t count) : schema_(std::move(schema)), count_(count) {}

  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return count_; }
  std::string describe(std::uint64_t index) const override { return "memory, sample " + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    for (std::size_t f = 0; f < schema_.size(); ++f) {
      const Value cell = value(index, f);
      sink.borrow(f, cell.shape, cell.data);
    }
    sink.done();
  }

  // Covers names, types and shapes: the same bytes under another shape are another sample.
  std::string fingerprint(std::uint64_t index) const override {
    std::string text;
    for (std::size_t f = 0; f < schema_.size(); ++f) {
      const Value cell = value(index, f);
      const std::size_t bytes = static_cast<std::size_t>(cell.shape.element_count()) * byte_size(schema_[f].type);
      const XXH128_hash_t hash = XXH3_128bits(cell.data, bytes);
      std::array<char, 33> hex{};
      std::snprintf(hex.data(), hex.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                    static_cast<unsigned long long>(hash.low64));
      text += schema_[f].name + ":" + to_string(schema_[f].type) + cell.shape.to_string() + ":" + hex.data() + ";";
    }
    return "memory:" + text;
  }

 private:
  virtual Value value(std::uint64_t index, std::size_t field) const = 0;

  Schema schema_;
  std::uint64_t count_;
};

class SampleSource final : public MemorySource {
 public:
  SampleSource(Schema schema, std::vector<Sample> samples)
      : MemorySource(std::move(schema), samples.size()), samples_(std::move(samples)) {}

 private:
  Value value(std::uint64_t index, std::size_t field) const override {
    const Tensor& tensor = samples_[index].tensors()[field];
    return {tensor.shape(), tensor.data()};
  }
  std::vector<Sample> samples_;
};

class ColumnSource final : public MemorySource {
 public:
  ColumnSource(const Schema& schema, std::uint64_t count, std::vector<Tensor> columns)
      : MemorySource(schema, count), columns_(std::move(columns)) {
    for (const Tensor& column : columns_) {
      const Shape row(column.shape().dims().subspan(1));
      rows_.push_back({row, static_cast<std::size_t>(row.element_count()) * byte_size(column.type())});
    }
  }
  const std::byte* column(std::size_t field) const override {
    return schema()[field].shape.known() ? columns_[field].data() : nullptr;
  }

 private:
  struct Row {
    Shape shape;
    std::size_t bytes;
  };
  Value value(std::uint64_t index, std::size_t field) const override {
    return {rows_[field].shape, columns_[field].data() + index * rows_[field].bytes};
  }
  std::vector<Tensor> columns_;
  std::vector<Row> rows_;
};

Shape common(const Shape& a, const Shape& b) {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (std::size_t i = 0; i < a.rank(); ++i) dims[i] = a[i] == b[i] ? a[i] : Shape::kUnknown;
  return Shape(std::span<const std::int64_t>(dims.data(), a.rank()));
}

Schema common_schema(const std::vector<Sample>& samples) {
  if (samples.empty()) throw InvalidArgument("memory: no samples, so no schema; memory_columns takes an empty set");
  std::vector<Field> fields;
  for (std::size_t f = 0; f < samples[0].names().size(); ++f) {
    const Tensor& tensor = samples[0].tensors()[f];
    fields.push_back({samples[0].names()[f], tensor.type(), tensor.shape()});
  }
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const std::string who = "memory: sample " + std::to_string(i);
    if (samples[i].names() != samples[0].names()) throw InvalidArgument(who + " has other fields than sample 0");
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const Tensor& tensor = samples[i].tensors()[f];
      if (tensor.type() != fields[f].type || tensor.shape().rank() != fields[f].shape.rank()) {
        throw InvalidArgument(who + ": " + fields[f].name + " is " + to_string(tensor.type()) + " " +
                              tensor.shape().to_string() + ", in sample 0 it is " +
                              to_string(samples[0].tensors()[f].type()) + " " +
                              samples[0].tensors()[f].shape().to_string());
      }
      fields[f].shape = common(fields[f].shape, tensor.shape());
    }
  }
  return Schema(std::move(fields));
}

std::uint64_t common_count(const Schema& schema, const std::vector<Tensor>& columns) {
  if (schema.size() == 0) throw InvalidArgument("memory_columns: the schema has no fields");
  if (columns.size() != schema.size()) {
    throw InvalidArgument("memory_columns: " + std::to_string(columns.size()) + " columns for the " +
                          std::to_string(schema.size()) + " fields of {" + schema.to_string() + "}");
  }
  for (std::size_t f = 0; f < columns.size(); ++f) {
    const Shape& shape = columns[f].shape();
    const Field& field = schema[f];
    if (columns[f].type() != field.type || shape.rank() == 0 || !field.shape.accepts(Shape(shape.dims().subspan(1)))) {
      throw InvalidArgument("memory_columns: the column of " + field.name + " is " + to_string(columns[f].type()) +
                            " " + shape.to_string() + ", samples of " + to_string(field.type) + " " +
                            field.shape.to_string() + " are due");
    }
    if (shape[0] != columns[0].shape()[0]) {
      throw InvalidArgument("memory_columns: " + field.name + " has " + std::to_string(shape[0]) + " rows, " +
                            schema[0].name + " has " + std::to_string(columns[0].shape()[0]));
    }
  }
  return static_cast<std::uint64_t>(columns[0].shape()[0]);
}

}  // namespace

Pipeline memory(std::vector<Sample> samples) {
  Schema schema = common_schema(samples);
  return Pipeline(std::make_shared<SampleSource>(std::move(schema), std::move(samples)));
}

Pipeline memory_columns(const Schema& schema, std::vector<Tensor> columns) {
  const std::uint64_t count = common_count(schema, columns);
  return Pipeline(std::make_shared<ColumnSource>(schema, count, std::move(columns)));
}

}  // namespace penstock
