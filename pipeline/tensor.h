// Typed, shaped memory: DataType, Shape, View (not owning) and Tensor (shared, immutable).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace penstock {

/// Element types of tensors.
enum class DataType : std::uint8_t { kU8, kI32, kI64, kF32, kF16, kBF16 };

/// Bytes of one element.
constexpr std::size_t byte_size(DataType type) noexcept {
  constexpr std::array<std::size_t, 6> kSizes{1, 4, 8, 4, 2, 2};
  return kSizes[static_cast<std::size_t>(type)];
}
/// `u8`, `i32`, `i64`, `f32`, `f16`, `bf16`.
const char* to_string(DataType type) noexcept;

/// Whether `T` is the element type of some DataType.
template <class T>
inline constexpr bool kHasDataType = false;
/// The DataType of a `T` for which kHasDataType holds.
template <class T>
inline constexpr DataType kDataType = DataType::kU8;
#define PENSTOCK_DATA_TYPE(T, E)                \
  template <>                                   \
  inline constexpr bool kHasDataType<T> = true; \
  template <>                                   \
  inline constexpr DataType kDataType<T> = DataType::E
PENSTOCK_DATA_TYPE(std::uint8_t, kU8);
PENSTOCK_DATA_TYPE(std::int32_t, kI32);
PENSTOCK_DATA_TYPE(std::int64_t, kI64);
PENSTOCK_DATA_TYPE(float, kF32);
#undef PENSTOCK_DATA_TYPE

/// Up to six dimensions, outermost first; `kUnknown` (-1) where a dimension differs from sample to sample.
class Shape {
 public:
  static constexpr std::int64_t kUnknown = -1;
  static constexpr std::size_t kMaxRank = 6;

  Shape() = default;
  /// Throws InvalidArgument for more than kMaxRank dimensions or one below -1.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  std::size_t rank() const noexcept { return rank_; }
  std::int64_t operator[](std::size_t i) const noexcept { return dims_[i]; }
  std::span<const std::int64_t> dims() const noexcept { return {dims_.data(), rank_}; }
  /// True when no dimension is unknown.
  bool known() const noexcept;
  /// Product of the dimensions (1 for a scalar); only for known shapes.
  std::int64_t element_count() const noexcept;
  /// True when `other` fits this shape: equal rank and equal dimensions wherever this one is known.
  bool accepts(const Shape& other) const noexcept;
  /// `[3, 224, ?]`
  std::string to_string() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::uint32_t rank_ = 0;
};

/// A typed window onto memory that somebody else owns, dense, row-major. `T` may be const.
template <class T>
class View {
 public:
  View(T* data, const Shape& shape) noexcept : data_(data), shape_(shape) {}
  T* data() const noexcept { return data_; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t dim(std::size_t i) const noexcept { return shape_[i]; }
  std::int64_t size() const noexcept { return shape_.element_count(); }
  std::span<T> span() const noexcept { return {data_, static_cast<std::size_t>(size())}; }
  T& operator[](std::int64_t i) const noexcept { return data_[i]; }

 private:
  T* data_;
  Shape shape_;
};

/// Shared, immutable, dense, row-major memory with a type and a shape. Copies share the bytes. Safe to read from many
/// threads.
class Tensor {
 public:
  Tensor() = default;
  /// Takes `owner`, whose bytes begin at `data`. Lifetime: the bytes live as long as any copy.
  Tensor(DataType type, const Shape& shape, std::shared_ptr<const void> owner, const std::byte* data);
  /// Copies `values`. Throws InvalidArgument when their count is not that of `shape`.
  template <class T>
  static Tensor copy_of(std::span<const T> values, const Shape& shape);
  template <class T>
  static Tensor scalar(T value) {
    return copy_of<T>(std::span<const T>(&value, 1), Shape{});
  }
  /// Copies `bytes`, dense row-major. Throws InvalidArgument when their count is not that of `type` and `shape`.
  static Tensor copy_of_bytes(DataType type, const Shape& shape, std::span<const std::byte> bytes);

  DataType type() const noexcept { return type_; }
  const Shape& shape() const noexcept { return shape_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept {
    return static_cast<std::size_t>(shape_.element_count()) * byte_size(type_);
  }
  /// Typed view. Throws InvalidArgument when `T` is not the tensor's type.
  template <class T>
  View<const T> view() const {
    require_type(kDataType<std::remove_const_t<T>>);
    return {reinterpret_cast<const T*>(data_), shape_};
  }

 private:
  void require_type(DataType wanted) const;

  DataType type_ = DataType::kU8;
  Shape shape_{0};
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
};

template <class T>
Tensor Tensor::copy_of(std::span<const T> values, const Shape& shape) {
  static_assert(kHasDataType<T>);
  return copy_of_bytes(kDataType<T>, shape, std::as_bytes(values));
}

}  // namespace penstock
