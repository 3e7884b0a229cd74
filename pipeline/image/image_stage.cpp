// Numbers go into identities in the shortest form that reads back as the same number, so an identity is exact.
#include <penstock/pipeline/image/image_stage.h>

#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>

namespace penstock::detail {
namespace {

constexpr std::int64_t kMaxSide = 65535;

template <class T>
std::string number_text(T value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

MapStage image_stage(ImageStage stage) {
  MapStage result;
  result.name = std::string(stage.name);
  result.identity = result.name + "/" + std::to_string(kImageMapsVersion) + "(" + parameter("field", stage.field) +
                    (stage.parameters.empty() ? "" : ", " + stage.parameters) + ")";
  result.draws = stage.draws;
  result.writes = {stage.field};
  result.output = [field = stage.field, rule = std::move(stage.rule)](const Schema& schema) {
    std::vector<Field> fields = schema.fields();
    Field& changed = fields[schema.index_of(field)];
    changed = rule(changed);
    return Schema(std::move(fields));
  };
  result.bind = [field = stage.field, body = std::move(stage.body)](const Schema& schema) -> MapBody {
    return [at = schema.index_of(field), body](Row& row, Draw& draw) { body(row, at, draw); };
  };
  return result;
}

void require_picture(const Field& field) {
  if (field.type == DataType::kU8 && field.shape.rank() == 3 && field.shape[2] >= 1) return;
  throw InvalidArgument("field \"" + field.name + "\" is " + to_string(field.type) + " " + field.shape.to_string() +
                        ", and must be a picture, u8 [height, width, channels] with known channels" +
                        (field.type == DataType::kU8 && field.shape.rank() == 1 ? "; decode_image makes one" : ""));
}

Picture picture_of(const Cell& cell) {
  const Picture picture{cell.data, cell.shape[0], cell.shape[1], cell.shape[2]};
  if (picture.height < 1 || picture.width < 1) {
    throw DataError(ErrorKind::kOther,
                    "the picture is " + size_text(picture.height, picture.width) + ", without pixels");
  }
  return picture;
}

std::string size_text(std::int64_t height, std::int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

void require_side(std::string_view what, std::int64_t value) {
  if (value >= 1 && value <= kMaxSide) return;
  throw InvalidArgument(std::string(what) + " is " + std::to_string(value) + ", and must be 1 to " +
                        std::to_string(kMaxSide));
}

std::string parameter(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + std::string(value);
}
std::string parameter(std::string_view name, std::int64_t value) { return parameter(name, number_text(value)); }
std::string parameter(std::string_view name, double value) { return parameter(name, number_text(value)); }
std::string parameter(std::string_view name, float value) { return parameter(name, number_text(value)); }

}  // namespace penstock::detail
