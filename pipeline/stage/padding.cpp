// f16 and bf16 are rounded to nearest, ties to even, from the double itself.
#include <penstock/pipeline/stage/padding.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::stage {
namespace {

std::string text_of(double value) {
  std::string text = std::to_string(value);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool point = text.back() == '.';
    text.pop_back();
    if (point) break;
  }
  return text;
}

// Bits of a float with `fraction_bits` of fraction and the exponent's `bias`: 10 and 15, or 7 and 127.
std::uint16_t short_float(double value, int fraction_bits, int bias) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto infinity = static_cast<std::uint16_t>((2 * bias + 1) << fraction_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (1 << (fraction_bits - 1)));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  const double size = std::fabs(value);
  // Below the smallest normal number the exponent stays.
  const int exponent = size == 0 ? 1 - bias : std::max(std::ilogb(size), 1 - bias);
  const auto significand = static_cast<std::int64_t>(std::nearbyint(std::ldexp(size, fraction_bits - exponent)));
  // A significand that was rounded up to the next power of two, or is below one, gives the exponent that it has.
  const std::int64_t bits = (static_cast<std::int64_t>(exponent + bias - 1) << fraction_bits) + significand;
  if (bits >= infinity) throw InvalidArgument("it is too large");
  return static_cast<std::uint16_t>(sign | bits);
}

template <class T>
std::array<std::byte, 8> bytes_of(T value) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
std::array<std::byte, 8> integer(double value) {
  // The upper end is a power of two, and so is exact.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(value >= static_cast<double>(std::numeric_limits<T>::min()) && value < end) || std::trunc(value) != value) {
    throw InvalidArgument("it is no whole number in the type's range");
  }
  return bytes_of(static_cast<T>(value));
}

// The shape that rows are padded to: `given` where it is known, else what the field has.
Shape wanted_shape(const std::string& stage, const Field& field, const Shape& given) {
  if (given.rank() != field.shape.rank()) {
    throw InvalidArgument(stage + ": field \"" + field.name + "\" is " + field.shape.to_string() +
                          " and cannot be padded to " + given.to_string());
  }
  std::vector<std::int64_t> dims(given.dims().begin(), given.dims().end());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == Shape::kUnknown) {
      dims[d] = field.shape[d];
    } else if (field.shape[d] > dims[d]) {
      throw InvalidArgument(stage + ": field \"" + field.name + "\" is " + field.shape.to_string() +
                            " and cannot be padded to " + given.to_string());
    }
  }
  return Shape(std::span<const std::int64_t>(dims));
}

void require_fields(const std::string& stage, const Schema& rows, const PaddedBatch& options) {
  try {
    for (const auto& [name, value] : options.padding) static_cast<void>(rows.index_of(name));
    for (const auto& [name, shape] : options.shapes) static_cast<void>(rows.index_of(name));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(stage + ": " + error.what());
  }
}

}  // namespace

std::array<std::byte, 8> element_of(DataType type, double value) {
  switch (type) {
    case DataType::kU8:
      return integer<std::uint8_t>(value);
    case DataType::kI32:
      return integer<std::int32_t>(value);
    case DataType::kI64:
      return integer<std::int64_t>(value);
    case DataType::kF32:
      if (std::isfinite(value) && std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
        throw InvalidArgument("it is too large");
      }
      return bytes_of(static_cast<float>(value));
    case DataType::kF16:
      return bytes_of(short_float(value, 10, 15));
    case DataType::kBF16:
      return bytes_of(short_float(value, 7, 127));
  }
  return {};
}

std::vector<RowShape> padded_rows(const std::string& stage, const Schema& rows, const PaddedBatch& options) {
  require_fields(stage, rows, options);
  std::vector<RowShape> shapes;
  for (const Field& field : rows.fields()) {
    const auto given = options.shapes.find(field.name);
    const auto padding = options.padding.find(field.name);
    const double value = padding == options.padding.end() ? 0.0 : padding->second;
    RowShape shape{given == options.shapes.end() ? field.shape : wanted_shape(stage, field, given->second)};
    try {
      shape.padding = element_of(field.type, value);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(stage + ": padding " + text_of(value) + " for field \"" + field.name + "\", which is " +
                            to_string(field.type) + ": " + error.what());
    }
    shapes.push_back(shape);
  }
  return shapes;
}

Schema padded_schema(const Schema& rows, const std::vector<RowShape>& shapes) {
  std::vector<Field> fields = rows.fields();
  for (std::size_t f = 0; f < fields.size(); ++f) fields[f].shape = shapes[f].shape;
  return Schema(std::move(fields));
}

void require_room(const Schema& rows, const std::vector<RowShape>& shapes, const Sample& sample) {
  for (std::size_t f = 0; f < shapes.size(); ++f) {
    const Shape& wanted = shapes[f].shape;
    const Shape& got = sample.tensors()[f].shape();
    for (std::size_t d = 0; d < wanted.rank(); ++d) {
      if (wanted[d] == Shape::kUnknown || got[d] <= wanted[d]) continue;
      throw InvalidArgument("field \"" + rows[f].name + "\" is " + got.to_string() +
                            ", larger than what it is padded to, " + wanted.to_string());
    }
  }
}

}  // namespace penstock::stage
