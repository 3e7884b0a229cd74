// Maps over pictures: decode, resize, crop, flip, normalise. Each is a MapStage for `Pipeline::map`.
//
//   image_folder("photos/train")
//       .map(decode_image())                              // image: u8 [?] -> u8 [?, ?, 3]
//       .map(random_resized_crop(224))                    // -> u8 [224, 224, 3]
//       .map(random_flip())                               // same type and shape
//       .map(normalise({0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}));  // -> f32 [224, 224, 3]
//
// Letters of shapes: H height, W width, C channels. Pictures are u8 [H, W, C] unless said otherwise. Every function
// here throws InvalidArgument for parameters that make no sense; a stage whose field has another type or shape is
// refused when the pipeline is built. Stages are safe to use from many threads. Results depend on no instruction set:
// all arithmetic is in integers, or in single IEEE operations in the order given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/pipeline/image/decode.h>
#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/tensor.h>

namespace penstock {

/// Order of the dimensions that a map writes.
enum class Layout : std::uint8_t {
  kHwc,  ///< [H, W, C], as pictures are decoded
  kChw,  ///< [C, H, W], planes
};

/// What stands where a window reaches beyond the picture.
enum class Pad : std::uint8_t {
  kNone,     ///< nothing: such a window is an error
  kFill,     ///< a constant
  kReflect,  ///< the picture mirrored at its edge pixels, which are not doubled: c b | a b c | b a
};

struct DecodeImage {
  int channels = 3;  ///< 1 (grey) or 3 (RGB)
  Orientation orientation = Orientation::kApply;
  std::uint64_t max_pixels = kDefaultMaxPixels;
  std::string field = "image";
};
/// Decodes JPEG or PNG: u8 [bytes] -> u8 [H, W, channels], H and W unknown before. ImageDecoder of decode.h has the
/// exact rules and the errors.
MapStage decode_image(DecodeImage options = {});

struct Resize {
  std::string field = "image";
};
/// u8 [H, W, C] -> u8 [height, width, C], both sides stretched on their own. Weights are a triangle two output pixels
/// wide when reducing (so nothing is skipped), two input pixels wide when enlarging: within one level of Pillow's
/// BILINEAR. Columns first, then rows, in fixed point; an unchanged size changes nothing. 1 <= height, width <= 65535.
MapStage resize(std::int64_t height, std::int64_t width, Resize options = {});
/// The shorter side becomes `pixels`, the longer one longer * pixels / shorter, rounded down; so neither is ever 0.
/// Filter as `resize`. Throws DataError(image_too_large) when the result had more than kDefaultMaxPixels pixels.
MapStage resize_short_side(std::int64_t pixels, Resize options = {});
/// The longer side becomes `pixels`, the shorter one shorter * pixels / longer, rounded down, and at least 1.
MapStage resize_long_side(std::int64_t pixels, Resize options = {});

struct CenterCrop {
  /// What to do with a picture that is smaller than the window: an error that names both sizes, or padding.
  Pad pad = Pad::kNone;
  std::uint8_t fill = 0;  ///< for Pad::kFill, every channel
  std::string field = "image";
};
/// The middle of the picture: u8 [H, W, C] -> u8 [height, width, C]. Its top is (H - height) / 2 rounded to nearest,
/// ties to even; left likewise (as torchvision). A smaller picture is padded by (height - H) / 2, rounded down, at the
/// top.
MapStage center_crop(std::int64_t height, std::int64_t width, CenterCrop options = {});
MapStage center_crop(std::int64_t side, CenterCrop options = {});

struct RandomCrop {
  std::int64_t padding = 0;  ///< pixels added on each of the four sides before cropping
  Pad pad = Pad::kFill;      ///< what is added: kFill or kReflect
  std::uint8_t fill = 0;     ///< for Pad::kFill, every channel
  std::string field = "image";
};
/// A window anywhere in the padded picture, each place equally likely: u8 [H, W, C] -> u8 [height, width, C]. A padded
/// picture smaller than the window is an error that names both sizes. Draws: top, left.
MapStage random_crop(std::int64_t height, std::int64_t width, RandomCrop options = {});
MapStage random_crop(std::int64_t side, RandomCrop options = {});

/// Two ends of a range.
struct Range {
  double low;
  double high;
};
struct RandomResizedCrop {
  Range scale{0.08, 1.0};             ///< share of the picture's area; 0 < low <= high
  Range ratio{3.0 / 4.0, 4.0 / 3.0};  ///< width / height of the window; 0 < low <= high
  std::string field = "image";
};
/// A window of random area and shape, resized: u8 [H, W, C] -> u8 [height, width, C]. torchvision's rule: up to 10
/// times, draw the area uniformly and the logarithm of the ratio uniformly; w = sqrt(area * ratio) and h = sqrt(area /
/// ratio), rounded to nearest, ties to even; the first window that fits gets a uniform top, then a uniform left. If
/// none fits: the middle of the picture, cut where its shape lies outside of `ratio`. The filter is that of `resize`
/// and sees nothing outside of the window.
MapStage random_resized_crop(std::int64_t height, std::int64_t width, RandomResizedCrop options = {});
MapStage random_resized_crop(std::int64_t side, RandomResizedCrop options = {});

struct RandomFlip {
  std::string field = "image";
};
/// Left and right exchanged with probability `p`, 0 <= p <= 1; type and shape stay. Draws: one number.
MapStage random_flip(double p = 0.5, RandomFlip options = {});

struct Normalise {
  Layout layout = Layout::kHwc;
  std::string field = "image";
};
/// u8 [H, W, C] -> f32, ((x / 255) - mean[c]) / deviation[c], each an operation in f32, in this order. One mean and one
/// deviation (finite, above 0) a channel.
MapStage normalise(std::vector<float> mean, std::vector<float> deviation, Normalise options = {});

struct Convert {
  Layout layout = Layout::kHwc;
  std::string field = "image";
};
/// u8 [H, W, C] -> `type` (kF32 or kU8) of the same values, unscaled, in the layout given.
MapStage convert(DataType type, Convert options = {});

}  // namespace penstock
