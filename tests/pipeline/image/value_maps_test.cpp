// normalise and convert: every bit as numpy's single-precision arithmetic gives it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>

#include "pipeline/image/picture.h"
#include "support/map_runner.h"

namespace penstock {
namespace {

using test::fixture;
using test::picture;
using test::run_map;
using test::stored_pixels;
using test::Value;

const std::vector<float> kMean{0.485F, 0.456F, 0.406F};
const std::vector<float> kDeviation{0.229F, 0.224F, 0.225F};

TEST(NormaliseTest, GivesTheBitsOfNumpy) {
  const Value hwc = run_map(normalise(kMean, kDeviation), stored_pixels("values.ppm"));
  EXPECT_EQ(hwc.type, DataType::kF32);
  EXPECT_EQ(hwc.shape, (Shape{16, 16, 3}));
  EXPECT_EQ(hwc.bytes, fixture("normalise_hwc.f32"));
  const Value chw = run_map(normalise(kMean, kDeviation, {.layout = Layout::kChw}), stored_pixels("values.ppm"));
  EXPECT_EQ(chw.shape, (Shape{3, 16, 16}));
  EXPECT_EQ(chw.bytes, fixture("normalise_chw.f32"));
}

TEST(NormaliseTest, TakesAnyNumberOfChannels) {
  const Value source = picture(3, 4, 2);
  for (const Layout layout : {Layout::kHwc, Layout::kChw}) {
    const Value got = run_map(normalise({0.5F, 0.25F}, {0.25F, 2}, {.layout = layout}), source);
    for (std::size_t i = 0; i < 12; ++i) {
      for (std::size_t c = 0; c < 2; ++c) {
        const float x = source.as<std::uint8_t>()[2 * i + c];
        const float wanted = (x / 255.0F - (c == 0 ? 0.5F : 0.25F)) / (c == 0 ? 0.25F : 2.0F);
        EXPECT_EQ(got.as<float>()[layout == Layout::kHwc ? 2 * i + c : c * 12 + i], wanted);
      }
    }
  }
}

TEST(NormaliseTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(normalise({}, {}), InvalidArgument);
  EXPECT_THROW(normalise({0, 0}, {1}), InvalidArgument);
  EXPECT_THROW(normalise({0}, {0}), InvalidArgument);
  EXPECT_THROW(normalise({std::nanf("")}, {1}), InvalidArgument);
  EXPECT_THROW(normalise({0}, {std::numeric_limits<float>::infinity()}), InvalidArgument);
  const Schema grey({{"image", DataType::kU8, Shape{4, 4, 1}}});
  try {
    normalise(kMean, kDeviation).output(grey);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "field \"image\" has 1 channels, and there are 3 means");
  }
}

TEST(NormaliseTest, HasAnIdentityWithAllParameters) {
  const std::string identity = normalise(kMean, kDeviation).identity;
  EXPECT_THAT(identity, testing::HasSubstr("layout=hwc, mean=0.485, deviation=0.229"));
  EXPECT_NE(identity, normalise(kMean, kDeviation, {.layout = Layout::kChw}).identity);
  EXPECT_NE(identity, normalise({0.485F, 0.456F, 0.4F}, kDeviation).identity);
  EXPECT_NE(identity, normalise(kMean, {0.229F, 0.224F, 0.2F}).identity);
}

TEST(ConvertTest, KeepsValues) {
  const Value source = picture(5, 7);
  const Value plain = run_map(convert(DataType::kF32), source);
  const Value planes = run_map(convert(DataType::kF32, {.layout = Layout::kChw}), source);
  const Value bytes = run_map(convert(DataType::kU8, {.layout = Layout::kChw}), source);
  ASSERT_EQ(plain.shape, (Shape{5, 7, 3}));
  ASSERT_EQ(planes.shape, (Shape{3, 5, 7}));
  ASSERT_EQ(bytes.shape, (Shape{3, 5, 7}));
  for (std::size_t i = 0; i < 35; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      const std::uint8_t value = source.as<std::uint8_t>()[3 * i + c];
      EXPECT_EQ(plain.as<float>()[3 * i + c], static_cast<float>(value));
      EXPECT_EQ(planes.as<float>()[35 * c + i], static_cast<float>(value));
      EXPECT_EQ(bytes.as<std::uint8_t>()[35 * c + i], value);
    }
  }
  EXPECT_TRUE(test::near(run_map(convert(DataType::kU8), source), source));
}

TEST(ConvertTest, RefusesOtherTypes) {
  try {
    convert(DataType::kI64);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "convert: the type is i64, and must be f32 or u8");
  }
  EXPECT_NE(convert(DataType::kF32).identity, convert(DataType::kU8).identity);
}

TEST(ImageMapsTest, NameTheFieldsThereAre) {
  const Schema schema({{"picture", DataType::kU8, Shape{4, 4, 3}}, {"label", DataType::kI64, Shape{}}});
  try {
    convert(DataType::kF32).output(schema);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("image"), testing::HasSubstr("picture")));
  }
  const Schema after = convert(DataType::kF32, {.field = "picture"}).output(schema);
  EXPECT_EQ(after[0].type, DataType::kF32);
  EXPECT_EQ(after[1], schema[1]);
}

}  // namespace
}  // namespace penstock
