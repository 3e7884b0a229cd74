// Shapes as text, and tensors that own a copy of their bytes.
#include <penstock/pipeline/tensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

std::shared_ptr<std::byte> aligned_copy(std::span<const std::byte> bytes) {
  std::shared_ptr<std::byte> owner = engine::make_aligned(bytes.size());
  if (!bytes.empty()) std::memcpy(owner.get(), bytes.data(), bytes.size());
  return owner;
}

}  // namespace

const char* to_string(DataType type) noexcept {
  constexpr std::array<const char*, 6> kNames{"u8", "i32", "i64", "f32", "f16", "bf16"};
  return kNames[static_cast<std::size_t>(type)];
}

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw InvalidArgument("shape: " + std::to_string(dims.size()) + " dimensions, at most " + std::to_string(kMaxRank) +
                          " are possible");
  }
  for (const std::int64_t dim : dims) {
    if (dim < kUnknown) throw InvalidArgument("shape: a dimension of " + std::to_string(dim));
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<std::uint32_t>(dims.size());
}

bool Shape::known() const noexcept {
  const auto all = dims();
  return std::find(all.begin(), all.end(), kUnknown) == all.end();
}

std::int64_t Shape::element_count() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims()) count *= dim;
  return count;
}

bool Shape::accepts(const Shape& other) const noexcept {
  if (rank_ != other.rank_) return false;
  for (std::size_t i = 0; i < rank_; ++i) {
    if (dims_[i] != kUnknown && dims_[i] != other.dims_[i]) return false;
  }
  return true;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (std::size_t i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += dims_[i] == kUnknown ? "?" : std::to_string(dims_[i]);
  }
  return text + "]";
}

Tensor::Tensor(DataType type, const Shape& shape, std::shared_ptr<const void> owner, const std::byte* data)
    : type_(type), shape_(shape), owner_(std::move(owner)), data_(data) {
  if (!shape.known()) throw InvalidArgument("tensor: the shape " + shape.to_string() + " is not known in full");
}

Tensor Tensor::copy_of_bytes(DataType type, const Shape& shape, std::span<const std::byte> bytes) {
  if (!shape.known()) throw InvalidArgument("tensor: the shape " + shape.to_string() + " is not known in full");
  const std::size_t expected = static_cast<std::size_t>(shape.element_count()) * byte_size(type);
  if (bytes.size() != expected) {
    throw InvalidArgument("tensor: " + std::to_string(bytes.size()) + " bytes of values, " + penstock::to_string(type) +
                          " " + shape.to_string() + " takes " + std::to_string(expected));
  }
  std::shared_ptr<std::byte> owner = aligned_copy(bytes);
  const std::byte* const data = owner.get();
  return Tensor(type, shape, std::move(owner), data);
}

void Tensor::require_type(DataType wanted) const {
  if (wanted != type_) {
    throw InvalidArgument(std::string("tensor: it holds ") + penstock::to_string(type_) + ", not " +
                          penstock::to_string(wanted));
  }
}

}  // namespace penstock
