// Measured limits are above zero and of the right thing; the figures themselves are the machine's.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/report/machine_limits.h>
#include <penstock/pipeline/source/image_folder.h>

#include "support/jpeg_bytes.h"
#include "support/pipeline_support.h"
#include "support/source_temp_folder.h"

namespace penstock {
namespace {

TEST(MachineLimitsTest, DecodingPipelinesAreBoundByDecoding) {
  const test::TempFolder folder;
  const std::vector<std::uint8_t> grey(32 * 32, 77);
  for (int i = 0; i < 5; ++i) {
    folder.write("a/" + std::to_string(i) + ".jpg", test::jpeg_bytes(grey, 32, 32, 1));
  }
  folder.write("a/bad.jpg", "no picture");
  const Pipeline pipeline = image_folder(folder.path()).map(decode_image()).map(resize(8, 8)).batch(2);
  const MachineLimits limits = measure_limits(pipeline, {.samples = 100, .seconds = 0.1, .passes = 1});
  EXPECT_EQ(limits.limit, "picture decoding rate");
  EXPECT_GT(limits.samples_per_s, 100);
  EXPECT_GE(limits.cores, 1u);
  EXPECT_GT(limits.copy_bytes_per_s, 1e8);
  EXPECT_GT(limits.memory_bytes, std::uint64_t{1} << 28);
}

TEST(MachineLimitsTest, WithoutAPictureThatDecodesNothingIsMeasured) {
  const test::TempFolder folder;
  folder.write("a/bad.jpg", "no picture");
  const Pipeline pipeline = image_folder(folder.path()).map(decode_image()).map(resize(8, 8)).batch(2);
  const MachineLimits limits = measure_limits(pipeline);
  EXPECT_EQ(limits.limit, "");
  EXPECT_EQ(limits.samples_per_s, 0);
}

TEST(MachineLimitsTest, OtherPipelinesAreBoundByCopyingTheirRows) {
  const Pipeline pipeline = Pipeline(std::make_shared<test::NumberSource>(4)).batch(2);
  const MachineLimits limits = measure_limits(pipeline);
  EXPECT_EQ(limits.limit, "copy rate");
  EXPECT_DOUBLE_EQ(limits.samples_per_s * 8, limits.copy_bytes_per_s);
}

}  // namespace
}  // namespace penstock
