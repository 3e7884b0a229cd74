// The map over ImageDecoder: pixels go straight into the row's memory, scratch comes from the row.
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/decode.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/image/image_stage.h>

namespace penstock {

MapStage decode_image(DecodeImage options) {
  if (options.channels != 1 && options.channels != 3) {
    throw InvalidArgument("decode_image: channels is " + std::to_string(options.channels) + ", and must be 1 or 3");
  }
  if (options.max_pixels == 0) throw InvalidArgument("decode_image: max_pixels is 0, and must be at least 1");
  const DecodeOptions how{options.channels, options.orientation, options.max_pixels};
  return detail::image_stage({
      .name = "decode_image",
      .parameters = detail::parameter("channels", std::int64_t{how.channels}) + ", " +
                    detail::parameter("orientation", how.orientation == Orientation::kApply ? "apply" : "ignore") +
                    ", " + detail::parameter("max_pixels", std::to_string(how.max_pixels)) + ", " + decoder_versions(),
      .field = std::move(options.field),
      .rule =
          [how](const Field& field) {
            if (field.type != DataType::kU8 || field.shape.rank() != 1) {
              throw InvalidArgument("field \"" + field.name + "\" is " + to_string(field.type) + " " +
                                    field.shape.to_string() + ", and must be u8 [bytes], an encoded picture");
            }
            return Field{field.name, DataType::kU8, Shape{Shape::kUnknown, Shape::kUnknown, how.channels}};
          },
      .body =
          [how](Row& row, std::size_t at, Draw&) {
            const Cell& encoded = row.cell(at);
            ImageDecoder decoder({encoded.data, encoded.size_bytes()}, how);
            const std::size_t scratch_bytes = decoder.scratch_bytes();
            std::byte* const scratch = scratch_bytes == 0 ? nullptr : row.scratch(scratch_bytes);
            std::byte* const pixels =
                row.write(at, DataType::kU8, Shape{decoder.info().height, decoder.info().width, how.channels});
            decoder.decode({pixels, decoder.pixel_bytes()}, {scratch, scratch_bytes});
          },
  });
}

}  // namespace penstock
