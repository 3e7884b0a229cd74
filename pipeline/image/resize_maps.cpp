// Maps that resize, and the random window.
#include <algorithm>
#include <cmath>
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/image/image_stage.h>
#include <penstock/pipeline/image/resample.h>
#include <penstock/pipeline/image/window.h>

namespace penstock {
namespace {

// Resizes a window that lies inside the picture, and makes the result the value of field `at`.
void resize_window(Row& row, std::size_t at, const detail::Picture& picture, const detail::Window& window,
                   std::int64_t height, std::int64_t width) {
  const detail::Resample size{window.height, window.width, height, width, picture.channels};
  const std::size_t scratch_bytes = detail::resample_scratch_bytes(size);
  std::byte* const scratch = scratch_bytes == 0 ? nullptr : row.scratch(scratch_bytes);
  std::byte* const to = row.write(at, DataType::kU8, Shape{height, width, picture.channels});
  const std::byte* const from = picture.pixels + window.top * picture.stride_bytes() + window.left * picture.channels;
  detail::resample(size, from, picture.stride_bytes(), to, scratch);
}

detail::FieldRule size_rule(std::int64_t height, std::int64_t width) {
  return [height, width](const Field& field) {
    detail::require_picture(field);
    return Field{field.name, DataType::kU8, Shape{height, width, field.shape[2]}};
  };
}

std::string size_parameters(std::int64_t height, std::int64_t width) {
  return detail::parameter("height", height) + ", " + detail::parameter("width", width);
}

enum class Side : std::uint8_t { kShort, kLong };

struct Size {
  std::int64_t height;
  std::int64_t width;
};

Size scaled_to(Side side, std::int64_t pixels, Size from) {
  const bool height_counts = (from.height <= from.width) == (side == Side::kShort);
  const std::int64_t measured = height_counts ? from.height : from.width;
  const std::int64_t other = height_counts ? from.width : from.height;
  const std::int64_t result = std::max<std::int64_t>(1, other * pixels / measured);
  return height_counts ? Size{pixels, result} : Size{result, pixels};
}

MapStage resize_side(std::string_view name, Side side, std::int64_t pixels, Resize options) {
  detail::require_side(std::string(name) + ": pixels", pixels);
  return detail::image_stage({
      .name = name,
      .parameters = detail::parameter("pixels", pixels),
      .field = std::move(options.field),
      .rule =
          [side, pixels](const Field& field) {
            detail::require_picture(field);
            Size size{Shape::kUnknown, Shape::kUnknown};
            if (field.shape[0] >= 1 && field.shape[1] >= 1) {
              size = scaled_to(side, pixels, {field.shape[0], field.shape[1]});
            }
            return Field{field.name, DataType::kU8, Shape{size.height, size.width, field.shape[2]}};
          },
      .body =
          [side, pixels](Row& row, std::size_t at, Draw&) {
            const detail::Picture picture = detail::picture_of(row.cell(at));
            const Size size = scaled_to(side, pixels, {picture.height, picture.width});
            if (static_cast<std::uint64_t>(size.height) > kDefaultMaxPixels / static_cast<std::uint64_t>(size.width)) {
              throw DataError(ErrorKind::kImageTooLarge,
                              "resizing " + detail::size_text(picture.height, picture.width) + " would give " +
                                  detail::size_text(size.height, size.width) + " pixels, more than " +
                                  std::to_string(kDefaultMaxPixels));
            }
            resize_window(row, at, picture, {0, 0, picture.height, picture.width}, size.height, size.width);
          },
  });
}

// exp and log from single IEEE operations: those of the C library may differ in the last bit between processors, and a
// window would then differ by a pixel. Good for the few powers of two that ratios span.
double plain_exp(double x) {
  constexpr double kLog2 = 0.693147180559945309417;
  const double power = std::floor(x / kLog2 + 0.5);
  const double rest = x - power * kLog2;  // within 0.35
  double sum = 1;
  for (int n = 18; n >= 1; --n) sum = 1 + rest / n * sum;
  return std::ldexp(sum, static_cast<int>(power));
}

double plain_log(double x) {
  constexpr double kLog2 = 0.693147180559945309417;
  int power = 0;
  std::frexp(x, &power);
  double log = power * kLog2;
  for (int i = 0; i < 12; ++i) log += x / plain_exp(log) - 1;  // Newton
  return log;
}

void require_range(const char* what, Range range) {
  if (std::isfinite(range.high) && range.low > 0 && range.low <= range.high) return;
  throw InvalidArgument(std::string("random_resized_crop: ") + what + " is " + std::to_string(range.low) + " to " +
                        std::to_string(range.high) + ", and must be 0 < low <= high");
}

detail::Window random_window(const detail::Picture& picture, Range scale, Range ratio, Range log_ratio, Draw& draw) {
  constexpr int kTries = 10;
  const double area = static_cast<double>(picture.height) * static_cast<double>(picture.width);
  for (int i = 0; i < kTries; ++i) {
    const double wanted_area = area * draw.uniform(scale.low, scale.high);
    const double wanted_ratio = plain_exp(draw.uniform(log_ratio.low, log_ratio.high));
    const auto width = static_cast<std::int64_t>(std::nearbyint(std::sqrt(wanted_area * wanted_ratio)));
    const auto height = static_cast<std::int64_t>(std::nearbyint(std::sqrt(wanted_area / wanted_ratio)));
    if (width < 1 || width > picture.width || height < 1 || height > picture.height) continue;
    const auto top = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(picture.height - height) + 1));
    const auto left = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(picture.width - width) + 1));
    return {top, left, height, width};
  }
  detail::Window window{0, 0, picture.height, picture.width};
  const double shape = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  if (shape < ratio.low) {
    window.height = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(picture.width) / ratio.low));
  } else if (shape > ratio.high) {
    window.width = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(picture.height) * ratio.high));
  }
  // A ratio far from 1 may round a side of a tiny picture to 0.
  window.height = std::clamp<std::int64_t>(window.height, 1, picture.height);
  window.width = std::clamp<std::int64_t>(window.width, 1, picture.width);
  window.top = (picture.height - window.height) / 2;
  window.left = (picture.width - window.width) / 2;
  return window;
}

}  // namespace

MapStage resize(std::int64_t height, std::int64_t width, Resize options) {
  detail::require_side("resize: height", height);
  detail::require_side("resize: width", width);
  return detail::image_stage({
      .name = "resize",
      .parameters = size_parameters(height, width),
      .field = std::move(options.field),
      .rule = size_rule(height, width),
      .body =
          [height, width](Row& row, std::size_t at, Draw&) {
            const detail::Picture picture = detail::picture_of(row.cell(at));
            resize_window(row, at, picture, {0, 0, picture.height, picture.width}, height, width);
          },
  });
}

MapStage resize_short_side(std::int64_t pixels, Resize options) {
  return resize_side("resize_short_side", Side::kShort, pixels, std::move(options));
}

MapStage resize_long_side(std::int64_t pixels, Resize options) {
  return resize_side("resize_long_side", Side::kLong, pixels, std::move(options));
}

MapStage random_resized_crop(std::int64_t height, std::int64_t width, RandomResizedCrop options) {
  detail::require_side("random_resized_crop: height", height);
  detail::require_side("random_resized_crop: width", width);
  require_range("scale", options.scale);
  require_range("ratio", options.ratio);
  const Range log_ratio{plain_log(options.ratio.low), plain_log(options.ratio.high)};
  return detail::image_stage({
      .name = "random_resized_crop",
      .parameters = size_parameters(height, width) + ", " + detail::parameter("scale_low", options.scale.low) + ", " +
                    detail::parameter("scale_high", options.scale.high) + ", " +
                    detail::parameter("ratio_low", options.ratio.low) + ", " +
                    detail::parameter("ratio_high", options.ratio.high),
      .draws = true,
      .field = std::move(options.field),
      .rule = size_rule(height, width),
      .body =
          [height, width, scale = options.scale, ratio = options.ratio, log_ratio](Row& row, std::size_t at,
                                                                                   Draw& draw) {
            const detail::Picture picture = detail::picture_of(row.cell(at));
            const detail::Window window = random_window(picture, scale, ratio, log_ratio, draw);
            resize_window(row, at, picture, window, height, width);
          },
  });
}

MapStage random_resized_crop(std::int64_t side, RandomResizedCrop options) {
  return random_resized_crop(side, side, std::move(options));
}

}  // namespace penstock
