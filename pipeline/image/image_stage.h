// What all image maps share: one field in, the same field out, checked against the schema. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <penstock/pipeline/map_stage.h>

namespace penstock::detail {

/// The field after the map; throws InvalidArgument when the map does not fit it.
using FieldRule = std::function<Field(const Field&)>;
/// Runs the map on field `at` of the row.
using FieldBody = std::function<void(Row&, std::size_t at, Draw&)>;

/// Raise it when the values of any image map change: it is part of every identity.
inline constexpr int kImageMapsVersion = 1;

/// A map over one picture field.
struct ImageStage {
  std::string_view name;
  std::string parameters;  ///< `height=224, width=224`; the field is added
  bool draws = false;
  std::string field;
  FieldRule rule;
  FieldBody body;
};
/// The map of a plan for it.
MapStage image_stage(ImageStage stage);

/// Throws InvalidArgument unless the field is u8 [H, W, C] with C known and not 0.
void require_picture(const Field& field);

/// A picture as a map finds it in a row.
struct Picture {
  const std::byte* pixels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;
  std::int64_t stride_bytes() const noexcept { return width * channels; }
};
/// Throws DataError when a side is 0.
Picture picture_of(const Cell& cell);

/// `480 x 640`: height x width.
std::string size_text(std::int64_t height, std::int64_t width);
/// Throws InvalidArgument unless 1 <= value <= 65535.
void require_side(std::string_view what, std::int64_t value);

/// `name=value` for identities; numbers in the shortest form that reads back as the same number.
std::string parameter(std::string_view name, std::string_view value);
std::string parameter(std::string_view name, std::int64_t value);
std::string parameter(std::string_view name, double value);
std::string parameter(std::string_view name, float value);

}  // namespace penstock::detail
