// Crops that copy, and the flip.
#include <cstring>
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/image/image_stage.h>
#include <penstock/pipeline/image/window.h>

namespace penstock {
namespace {

const char* pad_text(Pad pad) {
  switch (pad) {
    case Pad::kNone:
      return "none";
    case Pad::kFill:
      return "fill";
    case Pad::kReflect:
      return "reflect";
  }
  return "?";
}

std::string window_parameters(std::int64_t height, std::int64_t width, Pad pad, std::uint8_t fill) {
  return detail::parameter("height", height) + ", " + detail::parameter("width", width) + ", " +
         detail::parameter("pad", pad_text(pad)) + ", " + detail::parameter("fill", std::int64_t{fill});
}

detail::FieldRule window_rule(std::int64_t height, std::int64_t width) {
  return [height, width](const Field& field) {
    detail::require_picture(field);
    return Field{field.name, DataType::kU8, Shape{height, width, field.shape[2]}};
  };
}

// Half of the difference of two sizes: to nearest, ties to even, when there is something to cut; rounded down (in
// magnitude) when there is something to add.
std::int64_t central_start(std::int64_t have, std::int64_t want) {
  const std::int64_t over = have - want;
  if (over < 0) return -(-over / 2);
  const std::int64_t half = over / 2;
  return over % 2 == 1 && half % 2 == 1 ? half + 1 : half;
}

}  // namespace

MapStage center_crop(std::int64_t height, std::int64_t width, CenterCrop options) {
  detail::require_side("center_crop: height", height);
  detail::require_side("center_crop: width", width);
  return detail::image_stage({
      .name = "center_crop",
      .parameters = window_parameters(height, width, options.pad, options.fill),
      .field = std::move(options.field),
      .rule = window_rule(height, width),
      .body =
          [height, width, pad = options.pad, fill = options.fill](Row& row, std::size_t at, Draw&) {
            const detail::Picture picture = detail::picture_of(row.cell(at));
            if (pad == Pad::kNone && (picture.height < height || picture.width < width)) {
              throw DataError(ErrorKind::kOther, "the picture is " + detail::size_text(picture.height, picture.width) +
                                                     ", smaller than the crop of " + detail::size_text(height, width) +
                                                     "; resize it first, or set pad");
            }
            const detail::Window window{central_start(picture.height, height), central_start(picture.width, width),
                                        height, width};
            std::byte* const to = row.write(at, DataType::kU8, Shape{height, width, picture.channels});
            detail::copy_window(picture, window, pad, fill, to);
          },
  });
}

MapStage center_crop(std::int64_t side, CenterCrop options) { return center_crop(side, side, std::move(options)); }

MapStage random_crop(std::int64_t height, std::int64_t width, RandomCrop options) {
  detail::require_side("random_crop: height", height);
  detail::require_side("random_crop: width", width);
  if (options.padding != 0) detail::require_side("random_crop: padding", options.padding);
  if (options.padding != 0 && options.pad == Pad::kNone) {
    throw InvalidArgument("random_crop: padding is " + std::to_string(options.padding) +
                          ", and pad says that there is nothing to add");
  }
  return detail::image_stage({
      .name = "random_crop",
      .parameters = window_parameters(height, width, options.pad, options.fill) + ", " +
                    detail::parameter("padding", options.padding),
      .draws = true,
      .field = std::move(options.field),
      .rule = window_rule(height, width),
      .body =
          [height, width, padding = options.padding, pad = options.pad, fill = options.fill](Row& row, std::size_t at,
                                                                                             Draw& draw) {
            const detail::Picture picture = detail::picture_of(row.cell(at));
            const std::int64_t spare_height = picture.height + 2 * padding - height;
            const std::int64_t spare_width = picture.width + 2 * padding - width;
            if (spare_height < 0 || spare_width < 0) {
              throw DataError(ErrorKind::kOther, "the picture is " + detail::size_text(picture.height, picture.width) +
                                                     " with a padding of " + std::to_string(padding) +
                                                     ", smaller than the crop of " + detail::size_text(height, width));
            }
            const auto start = [&](std::int64_t spare) {
              return static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(spare) + 1)) - padding;
            };
            const std::int64_t top = start(spare_height);
            const std::int64_t left = start(spare_width);
            std::byte* const to = row.write(at, DataType::kU8, Shape{height, width, picture.channels});
            detail::copy_window(picture, {top, left, height, width}, pad, fill, to);
          },
  });
}

MapStage random_crop(std::int64_t side, RandomCrop options) { return random_crop(side, side, std::move(options)); }

MapStage random_flip(double p, RandomFlip options) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument("random_flip: p is " + std::to_string(p) + ", and must be 0 to 1");
  return detail::image_stage({
      .name = "random_flip",
      .parameters = detail::parameter("p", p),
      .draws = true,
      .field = std::move(options.field),
      .rule =
          [](const Field& field) {
            detail::require_picture(field);
            return field;
          },
      .body =
          [p](Row& row, std::size_t at, Draw& draw) {
            if (!draw.chance(p)) return;
            const detail::Picture picture = detail::picture_of(row.cell(at));
            std::byte* to = row.write(at, DataType::kU8, Shape{picture.height, picture.width, picture.channels});
            const auto mirror = [&]<std::size_t kChannels>() {
              const std::size_t channels = kChannels == 0 ? static_cast<std::size_t>(picture.channels) : kChannels;
              for (std::int64_t y = 0; y < picture.height; ++y) {
                const std::byte* from = picture.pixels + (y + 1) * picture.stride_bytes();
                for (std::int64_t x = 0; x < picture.width; ++x, to += channels) {
                  from -= channels;
                  std::memcpy(to, from, channels);
                }
              }
            };
            if (picture.channels == 3) {
              mirror.template operator()<3>();
            } else if (picture.channels == 1) {
              mirror.template operator()<1>();
            } else {
              mirror.template operator()<0>();
            }
          },
  });
}

}  // namespace penstock
