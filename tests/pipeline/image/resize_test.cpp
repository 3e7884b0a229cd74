// Resizing against Pillow's BILINEAR, on every instruction set this processor has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <string>
#include <tuple>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/image/resample_weights.h>

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

struct Case {
  std::int64_t height, width, channels, to_height, to_width;
  std::string name() const {
    const auto text = [](std::int64_t v) { return std::to_string(v); };
    return "resize_" + text(height) + "x" + text(width) + "x" + text(channels) + "_to_" + text(to_height) + "x" +
           text(to_width) + (channels == 1 ? ".pgm" : ".ppm");
  }
};

// From plain reductions and enlargements to one pixel, unchanged sides, and more taps than the kernels take.
const std::vector<Case> kCases{{47, 61, 3, 32, 32}, {47, 61, 3, 8, 9},   {47, 61, 3, 1, 1}, {47, 61, 3, 47, 20},
                               {47, 61, 3, 60, 61}, {9, 7, 3, 20, 31},   {1, 1, 3, 5, 4},   {33, 70, 1, 19, 24},
                               {300, 5, 3, 17, 5},  {140, 400, 3, 2, 3}, {400, 9, 1, 3, 30}};

TEST(ResizeTest, IsWithinOneLevelOfPillow) {
  for (const Case& c : kCases) {
    const Value got = run_map(resize(c.to_height, c.to_width), picture(c.height, c.width, c.channels));
    EXPECT_TRUE(near(got, stored_pixels(c.name()), 1)) << c.name();
  }
}

TEST(ResizeTest, GivesTheSameBytesOnEveryInstructionSet) {
  std::vector<Case> cases = kCases;
  cases.push_back({201, 333, 3, 100, 97});
  cases.push_back({64, 64, 4, 17, 130});
  for (const Case& c : cases) {
    const Value source = picture(c.height, c.width, c.channels);
    hwy::SetSupportedTargetsForTest(0);
    std::vector<std::int64_t> targets;
    for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
    ASSERT_GE(targets.size(), 1U);
    const Value wanted = run_map(resize(c.to_height, c.to_width), source);
    for (const std::int64_t target : targets) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      EXPECT_TRUE(near(run_map(resize(c.to_height, c.to_width), source), wanted))
          << c.name() << " " << hwy::TargetName(target);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

TEST(ResizeTest, KeepsFlatPicturesFlat) {
  for (const int level : {0, 1, 90, 127, 128, 254, 255}) {
    for (const Case& c : kCases) {
      const auto value = static_cast<std::uint8_t>(level);
      const Value got = run_map(resize(c.to_height, c.to_width), flat_picture(c.height, c.width, c.channels, value));
      EXPECT_TRUE(near(got, flat_picture(c.to_height, c.to_width, c.channels, value))) << c.name() << " " << level;
    }
  }
}

TEST(ResizeTest, ChangesNothingAtTheSameSize) {
  EXPECT_TRUE(near(run_map(resize(21, 34), picture(21, 34)), picture(21, 34)));
}

TEST(ResizeTest, AveragesWhereSkippingWouldShowPatterns) {
  std::vector<std::uint8_t> board;
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) board.push_back((x + y) % 2 == 0 ? 0 : 255);
  }
  const Value got = run_map(resize(8, 8), test::u8_value(Shape{64, 64, 1}, board));
  for (const std::uint8_t value : got.as<std::uint8_t>()) EXPECT_NEAR(value, 127.5, 0.5);
}

TEST(ResizeTest, WeightsAddUpExactly) {
  for (const auto& [in, out] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {1, 9}, {7, 3}, {500, 256}, {256, 500}, {40000, 224}, {65535, 1}}) {
    const std::int64_t stride = detail::max_tap_count(in, out);
    std::vector<detail::Taps> taps(static_cast<std::size_t>(out));
    std::vector<std::uint32_t> weights(static_cast<std::size_t>(out * stride));
    detail::make_weights(in, out, 15, taps.data(), weights.data());
    for (std::size_t i = 0; i < taps.size(); ++i) {
      ASSERT_GE(taps[i].first, 0);
      ASSERT_GE(taps[i].count, 1);
      ASSERT_LE(taps[i].count, stride);
      ASSERT_LE(taps[i].first + taps[i].count, in);
      std::uint64_t sum = 0;
      for (std::int64_t k = 0; k < taps[i].count; ++k)
        sum += weights[i * static_cast<std::size_t>(stride) + static_cast<std::size_t>(k)];
      ASSERT_EQ(sum, 1U << 15) << in << " to " << out << " at " << i;
    }
  }
}

TEST(ResizeTest, ShortSideKeepsTheShape) {
  for (const auto& [height, width, pixels, wanted] :
       std::vector<std::tuple<int, int, int, Shape>>{{30, 40, 15, Shape{15, 20, 3}},
                                                     {40, 30, 15, Shape{20, 15, 3}},
                                                     {31, 47, 16, Shape{16, 24, 3}},  // 24.26
                                                     {10, 10, 25, Shape{25, 25, 3}},
                                                     {1, 200, 2, Shape{2, 400, 3}}}) {
    const Value got = run_map(resize_short_side(pixels), picture(height, width));
    EXPECT_EQ(got.shape, wanted) << got.shape.to_string();
    EXPECT_TRUE(near(got, run_map(resize(wanted[0], wanted[1]), picture(height, width))));
  }
}

TEST(ResizeTest, LongSideNeverLosesTheShortOne) {
  EXPECT_EQ(run_map(resize_long_side(64), flat_picture(2000, 1, 3, 90)).shape, (Shape{64, 1, 3}));
  EXPECT_EQ(run_map(resize_long_side(64), flat_picture(1, 2000, 3, 90)).shape, (Shape{1, 64, 3}));
  EXPECT_EQ(run_map(resize_long_side(20), picture(30, 40)).shape, (Shape{15, 20, 3}));
  EXPECT_TRUE(near(run_map(resize(64, 64), flat_picture(2000, 1, 3, 90)), flat_picture(64, 64, 3, 90)));
}

TEST(ResizeTest, RefusesAResultWithoutBounds) {
  try {
    run_map(resize_short_side(2000), flat_picture(1, 60, 3, 1));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kImageTooLarge);
    EXPECT_STREQ(error.what(), "resizing 1 x 60 would give 2000 x 120000 pixels, more than 178956970");
  }
}

TEST(ResizeTest, SaysItsShapeBeforeItRuns) {
  const Schema unknown({{"image", DataType::kU8, Shape{Shape::kUnknown, Shape::kUnknown, 3}}});
  EXPECT_EQ(resize(4, 5).output(unknown)[0].shape, (Shape{4, 5, 3}));
  EXPECT_EQ(resize_short_side(4).output(unknown)[0].shape, (Shape{Shape::kUnknown, Shape::kUnknown, 3}));
  const Schema known({{"image", DataType::kU8, Shape{8, 16, 1}}});
  EXPECT_EQ(resize_short_side(4).output(known)[0].shape, (Shape{4, 8, 1}));
}

TEST(ResizeTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(resize(0, 5), InvalidArgument);
  EXPECT_THROW(resize(5, 65536), InvalidArgument);
  EXPECT_THROW(resize_short_side(0), InvalidArgument);
  const Schema encoded({{"image", DataType::kU8, Shape{Shape::kUnknown}}});
  try {
    resize(4, 5).output(encoded);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "field \"image\" is u8 [?], and must be a picture, u8 [height, width, channels] with known channels; "
                 "decode_image makes one");
  }
  EXPECT_NE(resize(4, 5).identity, resize(5, 4).identity);
  EXPECT_THAT(resize(4, 5).identity, testing::HasSubstr("height=4, width=5"));
}

}  // namespace
}  // namespace penstock
