// Damaged pictures: cut at every byte, and bytes flipped at random. Each gives an error of the right kind or, when a
// flip cannot be noticed, a picture of the right size; never a crash, never a word on stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>

#include "pipeline/image/picture.h"
#include "support/map_runner.h"

namespace penstock {
namespace {

using test::encoded;
using test::fixture;

std::optional<DataError> fault_in(std::vector<std::byte> bytes) {
  try {
    test::run_map(decode_image({.max_pixels = 1 << 20}), encoded(std::move(bytes)));
    return std::nullopt;
  } catch (const DataError& error) {
    return error;
  }
}

const std::vector<std::string> kVictims{"jpeg_17x33_420.jpg",     "jpeg_progressive.jpg", "jpeg_restart.jpg",
                                        "jpeg_arithmetic.jpg",    "jpeg_grey.jpg",        "jpeg_cmyk.jpg",
                                        "jpeg_orientation_6.jpg", "png_rgb_8.png",        "png_palette_trns.png",
                                        "png_interlaced.png",     "png_orientation_6.png"};

TEST(DamageTest, RefusesACutAtEveryByte) {
  testing::internal::CaptureStderr();
  for (const std::string& name : kVictims) {
    const std::vector<std::byte> good = fixture(name);
    ASSERT_FALSE(fault_in(good).has_value()) << name;
    for (std::size_t cut = 0; cut < good.size(); ++cut) {
      const std::optional<DataError> fault = fault_in({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)});
      ASSERT_TRUE(fault.has_value()) << name << " cut at " << cut;
      EXPECT_EQ(fault->kind(), cut == 0 ? ErrorKind::kEmptyFile : ErrorKind::kTruncated)
          << name << " cut at " << cut << ": " << fault->what();
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(DamageTest, SaysWhereAJpegEnds) {
  const std::vector<std::byte> good = fixture("jpeg_17x33_420.jpg");
  const std::optional<DataError> fault = fault_in({good.begin(), good.begin() + 500});
  ASSERT_TRUE(fault.has_value());
  EXPECT_STREQ(fault->what(), "JPEG ends after 500 bytes, before its end-of-image marker");
}

TEST(DamageTest, RefusesAMarkerInTheMiddleOfAScan) {
  for (const char* name : {"jpeg_17x33_420.jpg", "jpeg_grey.jpg", "jpeg_restart.jpg"}) {
    std::vector<std::byte> bytes = fixture(name);
    const std::size_t middle = bytes.size() - 100;
    bytes[middle] = std::byte{0xFF};
    bytes[middle + 1] = std::byte{0x44};
    const std::optional<DataError> fault = fault_in(bytes);
    ASSERT_TRUE(fault.has_value()) << name;
    EXPECT_EQ(fault->kind(), ErrorKind::kCorrupt) << name << ": " << fault->what();
    EXPECT_THAT(fault->what(), testing::HasSubstr("Corrupt JPEG data"));
  }
}

TEST(DamageTest, RefusesScansWithoutEnd) {
  const std::vector<std::byte> good = fixture("jpeg_scans.jpg");
  constexpr std::array kScan{std::byte{0xFF}, std::byte{0xDA}};
  const auto first = std::search(good.begin(), good.end(), kScan.begin(), kScan.end());
  const auto second = std::search(first + 2, good.end(), kScan.begin(), kScan.end());
  ASSERT_NE(second, good.end());
  const auto with_scans = [&](int more) {
    std::vector<std::byte> bytes(good.begin(), second);
    for (int i = 0; i < more; ++i) bytes.insert(bytes.end(), first, second);
    bytes.insert(bytes.end(), second, good.end());
    return bytes;
  };
  EXPECT_FALSE(fault_in(with_scans(400)).has_value());
  const std::optional<DataError> fault = fault_in(with_scans(600));
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind(), ErrorKind::kCorrupt);
  EXPECT_STREQ(fault->what(), "JPEG has more than 500 scans");
}

// A chunk that is not needed for the pixels, here the transparency of the second, may be damaged without a fault.
TEST(DamageTest, FlippedBytesOfAPngNeverGiveOtherPixels) {
  for (const std::string name : {"png_rgb_8", "png_palette_trns"}) {
    const std::vector<std::byte> good = fixture(name + ".png");
    int faults = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::vector<std::byte> bad = good;
      bad[at] ^= std::byte{0x20};
      try {
        EXPECT_TRUE(test::near(test::run_map(decode_image(), encoded(bad)), test::stored_pixels(name + ".ppm"))) << at;
      } catch (const DataError&) {
        ++faults;
      }
    }
    EXPECT_GE(faults, static_cast<int>(good.size()) - 28) << name;  // a chunk of 16 bytes and its frame
  }
}

TEST(DamageTest, SurvivesRandomFlips) {
  constexpr unsigned kSeed = 20240917;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  testing::internal::CaptureStderr();
  int faults = 0;
  for (const std::string& name : kVictims) {
    const std::vector<std::byte> good = fixture(name);
    for (int i = 0; i < 300; ++i) {
      std::vector<std::byte> bad = good;
      for (auto flips = 1 + random() % 4; flips > 0; --flips) {
        bad[random() % bad.size()] ^= static_cast<std::byte>(1U << random() % 8);
      }
      faults += fault_in(std::move(bad)).has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(faults, 300);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(DamageTest, SurvivesRandomBytesBehindASignature) {
  std::mt19937 random(7);
  for (const char* name : {"jpeg_grey.jpg", "png_rgb_8.png"}) {
    const std::vector<std::byte> good = fixture(name);
    for (int i = 0; i < 300; ++i) {
      std::vector<std::byte> bad(good.begin(), good.begin() + 8);
      for (auto n = random() % 200; n > 0; --n) bad.push_back(static_cast<std::byte>(random()));
      EXPECT_TRUE(fault_in(std::move(bad)).has_value());
    }
  }
}

}  // namespace
}  // namespace penstock
