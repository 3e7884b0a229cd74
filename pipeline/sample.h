// One sample: named tensors, and where they came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/pipeline/tensor.h>

namespace penstock {

/// A named tensor of a sample: type and shape (without the batch dimension; dimensions may be unknown).
struct Field {
  std::string name;
  DataType type = DataType::kU8;
  Shape shape;
  friend bool operator==(const Field&, const Field&) = default;
};

/// The fields of a sample in order; names are unique.
class Schema {
 public:
  Schema() = default;
  /// Throws InvalidArgument for an empty or doubled name.
  explicit Schema(std::vector<Field> fields);
  const std::vector<Field>& fields() const noexcept { return fields_; }
  std::size_t size() const noexcept { return fields_.size(); }
  const Field& operator[](std::size_t i) const noexcept { return fields_[i]; }
  /// Position of a field. Throws InvalidArgument that lists the names there are.
  std::size_t index_of(std::string_view name) const;
  /// `image: u8 [?, ?, 3], label: i64 []`
  std::string to_string() const;
  friend bool operator==(const Schema&, const Schema&) = default;

 private:
  std::vector<Field> fields_;
};

/// Where a sample came from: the pipeline's source and the index in it. The path is looked up when somebody asks.
struct Origin {
  std::uint32_t source = 0;
  std::uint64_t index = 0;
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// Named tensors of one sample: what whole-sample maps get and return, and what caches keep. Copies share the bytes.
class Sample {
 public:
  Sample() = default;
  Sample(std::vector<std::string> names, std::vector<Tensor> tensors, Origin origin = {});

  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  /// Throws InvalidArgument that lists the names there are.
  const Tensor& operator[](std::string_view name) const;
  /// Replaces the tensor of `name`, or adds it at the end.
  void set(std::string_view name, Tensor tensor);
  const Origin& origin() const noexcept { return origin_; }
  /// Sum of the tensors' bytes.
  std::size_t size_bytes() const noexcept;

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
  Origin origin_;
};

}  // namespace penstock
