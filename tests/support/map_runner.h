// Runs one map on one row without an engine: binds it to a schema, and keeps what it writes in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/row.h>

namespace penstock::test {

/// Row memory on the heap, exactly as large as asked for, so that a sanitizer sees every byte too many. `misalign`
/// moves each value that many bytes off its alignment of 64.
class VectorRowMemory final : public RowMemory {
 public:
  explicit VectorRowMemory(std::size_t misalign = 0) : misalign_(misalign) {}
  std::byte* value(std::size_t, std::size_t bytes) override { return piece(bytes, misalign_); }
  std::byte* scratch(std::size_t bytes) override { return piece(bytes, 0); }
  void hold(Tensor tensor) override { held_.push_back(std::move(tensor)); }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{64}); }
  };
  std::byte* piece(std::size_t bytes, std::size_t shift) {
    pieces_.emplace_back(static_cast<std::byte*>(::operator new(bytes + shift, std::align_val_t{64})));
    return pieces_.back().get() + shift;
  }
  std::size_t misalign_;
  std::deque<std::unique_ptr<std::byte, Free>> pieces_;
  std::deque<Tensor> held_;
};

/// A value: type, shape, bytes.
struct Value {
  DataType type = DataType::kU8;
  Shape shape;
  std::vector<std::byte> bytes;

  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

inline Value u8_value(const Shape& shape, std::span<const std::uint8_t> values) {
  const auto bytes = std::as_bytes(values);
  return {DataType::kU8, shape, {bytes.begin(), bytes.end()}};
}

/// The value of "image" after `stage`. The schema names the input's type and shape exactly, and the output is checked
/// against what the stage says.
inline Value run_map(const MapStage& stage, const Value& image, Draw draw = Draw(1, 0, 0, 0),
                     std::size_t misalign = 0) {
  const Schema schema({{"label", DataType::kI64, Shape{}}, {"image", image.type, image.shape}});
  const Schema after = stage.output(schema);
  const MapBody body = stage.bind(schema);
  VectorRowMemory memory(misalign);
  Row row(memory);
  row.reset({0, 0}, schema.size());
  const std::int64_t label = 7;
  row.set_cell(0, {reinterpret_cast<const std::byte*>(&label), DataType::kI64, Shape{}});
  row.set_cell(1, {image.bytes.data(), image.type, image.shape});
  body(row, draw);
  const Cell& cell = row.cell(1);
  if (cell.type != after[1].type || !after[1].shape.accepts(cell.shape)) {
    throw InvalidArgument("the map wrote " + std::string(to_string(cell.type)) + " " + cell.shape.to_string() +
                          " and promised " + to_string(after[1].type) + " " + after[1].shape.to_string());
  }
  return {cell.type, cell.shape, {cell.data, cell.data + cell.size_bytes()}};
}

}  // namespace penstock::test
