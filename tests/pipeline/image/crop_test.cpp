// Crops and flips against Pillow and numpy, and the laws of the random ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>

#include "pipeline/image/picture.h"
#include "support/map_runner.h"

namespace penstock {
namespace {

using test::flat_picture;
using test::near;
using test::picture;
using test::run_map;
using test::stored_pixels;
using test::Value;
using testing::HasSubstr;
using testing::ThrowsMessage;

Draw draw_for(std::uint64_t lineage) { return Draw(5, 1, lineage, 0); }

Value part_of(const Value& whole, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  const std::int64_t channels = whole.shape[2];
  Value part{whole.type, Shape{height, width, channels}, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    const auto begin = whole.bytes.begin() + ((top + y) * whole.shape[1] + left) * channels;
    part.bytes.insert(part.bytes.end(), begin, begin + width * channels);
  }
  return part;
}

TEST(CenterCropTest, TakesTheMiddle) {
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{4, 5}, {11, 14}, {5, 5}, {1, 1}, {10, 13}}) {
    const std::string name = "center_" + std::to_string(height) + "x" + std::to_string(width) + ".ppm";
    EXPECT_TRUE(near(run_map(center_crop(height, width), picture(11, 14)), stored_pixels(name))) << name;
  }
  EXPECT_TRUE(near(run_map(center_crop(5), picture(11, 14)), stored_pixels("center_5x5.ppm")));
}

TEST(CenterCropTest, PadsSmallPicturesWhenAsked) {
  EXPECT_TRUE(near(run_map(center_crop(18, 19, {.pad = Pad::kFill, .fill = 9}), picture(11, 14)),
                   stored_pixels("center_pad_constant_18x19.ppm")));
  EXPECT_TRUE(near(run_map(center_crop(18, 19, {.pad = Pad::kReflect}), picture(11, 14)),
                   stored_pixels("center_pad_reflect_18x19.ppm")));
}

TEST(CenterCropTest, RefusesSmallPictures) {
  try {
    run_map(center_crop(12, 14), picture(11, 14));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the picture is 11 x 14, smaller than the crop of 12 x 14; resize it first, or set pad");
  }
  EXPECT_THROW(run_map(center_crop(11, 15), picture(11, 14)), DataError);
  EXPECT_THROW(center_crop(0), InvalidArgument);
}

// All windows of `stage` are windows of `padded`; returns how often each place was drawn.
std::map<std::pair<std::int64_t, std::int64_t>, int> places(const MapStage& stage, const Value& source,
                                                            const Value& padded, int draws) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> count;
  for (int i = 0; i < draws; ++i) {
    const Value got = run_map(stage, source, draw_for(static_cast<std::uint64_t>(i)));
    const std::int64_t height = got.shape[0], width = got.shape[1];
    bool found = false;
    for (std::int64_t top = 0; top + height <= padded.shape[0] && !found; ++top) {
      for (std::int64_t left = 0; left + width <= padded.shape[1] && !found; ++left) {
        found = near(got, part_of(padded, top, left, height, width));
        if (found) ++count[{top, left}];
      }
    }
    EXPECT_TRUE(found) << "draw " << i;
  }
  return count;
}

TEST(RandomCropTest, TakesEveryPlaceEquallyOften) {
  const auto count = places(random_crop(9, 11), picture(11, 14), picture(11, 14), 1200);
  EXPECT_EQ(count.size(), 12U);  // 3 tops, 4 lefts
  for (const auto& [place, times] : count) EXPECT_NEAR(times, 100, 45);
}

TEST(RandomCropTest, PadsWithAConstant) {
  const auto count = places(random_crop(11, 14, {.padding = 4, .fill = 7}), picture(11, 14),
                            stored_pixels("padded_constant_4.ppm"), 600);
  EXPECT_EQ(count.size(), 81U);
}

TEST(RandomCropTest, PadsByReflection) {
  EXPECT_EQ(places(random_crop(11, 14, {.padding = 4, .pad = Pad::kReflect}), picture(11, 14),
                   stored_pixels("padded_reflect_4.ppm"), 600)
                .size(),
            81U);
  // Further than the picture is wide.
  EXPECT_GT(places(random_crop(50, 52, {.padding = 23, .pad = Pad::kReflect}), picture(11, 14),
                   stored_pixels("padded_reflect_23.ppm"), 60)
                .size(),
            30U);
}

TEST(RandomCropTest, RefusesSmallPictures) {
  try {
    run_map(random_crop(20, 14, {.padding = 4}), picture(11, 14));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the picture is 11 x 14 with a padding of 4, smaller than the crop of 20 x 14");
  }
  EXPECT_THROW(random_crop(4, 4, {.padding = 2, .pad = Pad::kNone}), InvalidArgument);
  EXPECT_THROW(random_crop(4, 4, {.padding = -1}), InvalidArgument);
}

TEST(RandomCropTest, OfAPictureOfThatSizeIsThePicture) {
  EXPECT_TRUE(near(run_map(random_crop(11, 14), picture(11, 14)), picture(11, 14)));
  EXPECT_TRUE(near(run_map(random_crop(1), picture(1, 1)), picture(1, 1)));
}

TEST(RandomFlipTest, MirrorsLeftAndRight) {
  EXPECT_TRUE(near(run_map(random_flip(1), picture(11, 14)), stored_pixels("flip_11x14.ppm")));
  EXPECT_TRUE(near(run_map(random_flip(0), picture(11, 14)), picture(11, 14)));
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Value once = run_map(random_flip(1), picture(3, 5, channels));
    EXPECT_FALSE(near(once, picture(3, 5, channels)));
    EXPECT_TRUE(near(run_map(random_flip(1), once), picture(3, 5, channels)));
    EXPECT_TRUE(near(part_of(once, 0, 4, 3, 1), part_of(picture(3, 5, channels), 0, 0, 3, 1)));
  }
}

TEST(RandomFlipTest, FlipsAsOftenAsSaid) {
  for (const double p : {0.25, 0.5}) {
    int flipped = 0;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      flipped += near(run_map(random_flip(p), picture(1, 2), draw_for(i)), picture(1, 2)) ? 0 : 1;
    }
    EXPECT_NEAR(flipped, 2000 * p, 100);
  }
  EXPECT_THROW(random_flip(1.5), InvalidArgument);
  EXPECT_THROW(random_flip(std::nan("")), InvalidArgument);
}

struct Window {
  std::int64_t top, left, height, width;
};

// torchvision's rule, written again with the C library's exp and log.
Window expected_window(Draw draw, std::int64_t height, std::int64_t width, Range scale, Range ratio) {
  for (int i = 0; i < 10; ++i) {
    const double area = static_cast<double>(height * width) * draw.uniform(scale.low, scale.high);
    const double shape = std::exp(draw.uniform(std::log(ratio.low), std::log(ratio.high)));
    const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * shape)));
    const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / shape)));
    if (0 < w && w <= width && 0 < h && h <= height) {
      const auto top = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(height - h + 1)));
      return {top, static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(width - w + 1))), h, w};
    }
  }
  const double shape = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t h = height, w = width;
  if (shape < ratio.low) h = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(width) / ratio.low));
  if (shape > ratio.high) w = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(height) * ratio.high));
  return {(height - h) / 2, (width - w) / 2, h, w};
}

TEST(RandomResizedCropTest, ResizesTheWindowOfTorchvisionsRule) {
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{60, 80}, {31, 17}, {9, 200}, {200, 9}, {1, 1}}) {
    const Value source = picture(height, width);
    for (std::uint64_t i = 0; i < 100; ++i) {
      const RandomResizedCrop rule;
      const Window window = expected_window(draw_for(i), height, width, rule.scale, rule.ratio);
      sizes.insert({window.height, window.width});
      const Value part = part_of(source, window.top, window.left, window.height, window.width);
      EXPECT_TRUE(near(run_map(random_resized_crop(12, 14), source, draw_for(i)), run_map(resize(12, 14), part)))
          << height << " x " << width << ", draw " << i;
    }
  }
  EXPECT_GT(sizes.size(), 100U);
}

TEST(RandomResizedCropTest, FallsBackToTheMiddle) {
  // No window of a ratio near 1 and the whole area fits into these.
  const RandomResizedCrop whole{.scale = {1, 1}};
  EXPECT_TRUE(near(run_map(random_resized_crop(6, 8, whole), picture(30, 100)),
                   run_map(resize(6, 8), part_of(picture(30, 100), 0, 30, 30, 40))));
  EXPECT_TRUE(near(run_map(random_resized_crop(8, whole), picture(100, 30)),
                   run_map(resize(8, 8), part_of(picture(100, 30), 30, 0, 40, 30))));
  // The ratio is right and the rounded window does not fit.
  EXPECT_EQ(run_map(random_resized_crop(4, {.scale = {4, 4}}), picture(9, 9)).bytes,
            run_map(resize(4, 4), picture(9, 9)).bytes);
}

TEST(RandomResizedCropTest, RefusesRangesThatMakeNoSense) {
  EXPECT_THAT([] { random_resized_crop(4, {.scale = {0, 1}}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("scale is 0.000000 to 1.000000, and must be 0 < low <= high")));
  EXPECT_THAT([] { random_resized_crop(4, {.scale = {0.5, 0.2}}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("scale is 0.500000 to 0.200000")));
  EXPECT_THAT([] { random_resized_crop(4, {.ratio = {-1, 1}}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("ratio is -1.000000 to 1.000000")));
  EXPECT_THAT([] { random_resized_crop(0); }, ThrowsMessage<InvalidArgument>(HasSubstr("height is 0")));
}

TEST(RandomMapsTest, DependOnTheirDrawAlone) {
  for (const MapStage& stage : {random_crop(9, 11), random_resized_crop(8), random_flip()}) {
    EXPECT_TRUE(stage.draws) << stage.name;
    EXPECT_THAT(stage.writes, testing::ElementsAre("image"));
    std::set<std::string> results;
    for (std::uint64_t i = 0; i < 30; ++i) {
      const Value once = run_map(stage, picture(11, 14), draw_for(i));
      EXPECT_TRUE(near(run_map(stage, picture(11, 14), draw_for(i)), once)) << stage.name;
      results.insert({reinterpret_cast<const char*>(once.bytes.data()), once.bytes.size()});
    }
    EXPECT_GT(results.size(), 1U) << stage.name;
  }
  EXPECT_FALSE(center_crop(4).draws);
}

TEST(RandomMapsTest, HaveIdentitiesWithAllParameters) {
  const std::vector<MapStage> stages{random_crop(9, 11),
                                     random_crop(11, 9),
                                     random_crop(9, 11, {.padding = 1}),
                                     random_crop(9, 11, {.fill = 1}),
                                     random_crop(9, 11, {.pad = Pad::kReflect}),
                                     random_crop(9, 11, {.field = "photo"}),
                                     center_crop(9, 11),
                                     random_resized_crop(9, 11),
                                     random_resized_crop(9, 11, {.scale = {0.5, 1}}),
                                     random_resized_crop(9, 11, {.scale = {0.08, 0.9}}),
                                     random_resized_crop(9, 11, {.ratio = {1, 4.0 / 3}}),
                                     random_resized_crop(9, 11, {.ratio = {3.0 / 4, 1}}),
                                     random_flip(),
                                     random_flip(0.25)};
  std::set<std::string> identities;
  for (const MapStage& stage : stages) identities.insert(stage.identity);
  EXPECT_EQ(identities.size(), stages.size());
}

}  // namespace
}  // namespace penstock
