// The collected problem pictures (cases H01 to H12, and the files of H17 that can be read). They are made by a script
// of their own; the environment variable PENSTOCK_CASES names the folder with expected.json. Without it these tests are
// skipped, aloud.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>

#include "pipeline/image/picture.h"
#include "support/map_runner.h"
#include "support/sha256.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::run_map;
using test::Value;

class CasesTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("PENSTOCK_CASES");
    if (folder == nullptr) GTEST_SKIP() << "PENSTOCK_CASES does not name the folder of the cases";
    folder_ = folder;
    std::ifstream(folder_ / "expected.json") >> expected_;
  }
  Value decoded(const std::string& id, const std::string& file, DecodeImage options = {}) const {
    return run_map(decode_image(std::move(options)), test::encoded(test::read_bytes(folder_ / id / file)));
  }
  // Every listed file of a case is a picture with the hash given, or an error of the kind given.
  void check_files(const std::string& id) const {
    std::size_t checked = 0;
    for (const auto& [file, answer] : expected_.at(id).at("files").items()) {
      SCOPED_TRACE(id + "/" + file);
      ++checked;
      if (answer.contains("error")) {
        check_error(id, file, answer);
      } else {
        check_pixels(decoded(id, file), answer);
      }
    }
    EXPECT_GE(checked, 2U);
  }
  void check_error(const std::string& id, const std::string& file, const json& answer) const {
    try {
      decoded(id, file);
      ADD_FAILURE() << "it was decoded";
    } catch (const DataError& error) {
      EXPECT_THAT(answer.at("error").get<std::string>(), testing::HasSubstr(to_string(error.kind()))) << error.what();
      if (answer.contains("detail")) {
        EXPECT_THAT(error.what(), testing::HasSubstr(answer.at("detail").get<std::string>()));
      }
    }
  }
  static void check_pixels(const Value& got, const json& answer) {
    EXPECT_EQ(got.shape, (Shape{answer.at("height").get<std::int64_t>(), answer.at("width").get<std::int64_t>(), 3}));
    EXPECT_EQ(test::sha256_hex(got.bytes), answer.at("rgb_sha256").get<std::string>());
  }

  std::filesystem::path folder_;
  json expected_;
};

TEST(Sha256Test, GivesThePublishedExample) {
  const std::string_view text = "abc";
  EXPECT_EQ(test::sha256_hex(std::as_bytes(std::span(text))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(CasesTest, H01FourInks) {
  const json& answer = expected_.at("H01");
  for (const json& file : answer.at("files")) {
    const Value got = decoded("H01", file.get<std::string>());
    ASSERT_EQ(got.shape, (Shape{16, 64, 3}));
    for (std::size_t i = 0; i < answer.at("patch_rgb").size(); ++i) {
      const auto x = answer.at("patch_centres_xy")[i][0].get<std::size_t>();
      const auto y = answer.at("patch_centres_xy")[i][1].get<std::size_t>();
      for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(got.as<std::uint8_t>()[(y * 64 + x) * 3 + c], answer.at("patch_rgb")[i][c].get<int>(),
                    answer.at("tolerance").get<int>())
            << file << " patch " << i;
      }
    }
  }
}

TEST_F(CasesTest, H02GreyWithSamplingFactors) { check_files("H02"); }
TEST_F(CasesTest, H03FormatByFirstBytes) { check_files("H03"); }
TEST_F(CasesTest, H04CutFiles) { check_files("H04"); }
TEST_F(CasesTest, H05DamagedScans) {
  testing::internal::CaptureStderr();
  check_files("H05");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(CasesTest, H06TurnFlags) {
  for (const auto& [file, answer] : expected_.at("H06").at("files").items()) {
    SCOPED_TRACE(file);
    check_pixels(decoded("H06", file), answer.at("applied"));
    check_pixels(decoded("H06", file, {.orientation = Orientation::kIgnore}), answer.at("ignored"));
  }
}

TEST_F(CasesTest, H07HugeHeaders) {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  const auto start = std::chrono::steady_clock::now();
  check_files("H07");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  EXPECT_LT(peak_kib() - before, 64 * 1024);
}

TEST_F(CasesTest, H08PngTransparency) { check_files("H08"); }
TEST_F(CasesTest, H09OddSizes) { check_files("H09"); }

TEST_F(CasesTest, H10AntialiasedReduction) {
  const json& files = expected_.at("H10").at("files");
  const auto check = [&](const std::string& file, const char* key, std::int64_t side, int channels) {
    const Value got = run_map(resize(side, side), decoded("H10", file, {.channels = channels}));
    std::vector<std::uint8_t> wanted;
    for (const json& row : files.at(file).at(key)) {
      for (const json& pixel : row) {
        if (channels == 1) wanted.push_back(pixel.get<std::uint8_t>());
        for (std::size_t c = 0; channels == 3 && c < 3; ++c) wanted.push_back(pixel[c].get<std::uint8_t>());
      }
    }
    EXPECT_TRUE(test::near(got, test::u8_value(Shape{side, side, channels}, wanted), 1)) << file;
  };
  check("checker_64.png", "resize_8x8_gray", 8, 1);
  check("block_64.png", "resize_8x8_gray", 8, 1);
  check("ramp_61x47.png", "resize_32x32_rgb", 32, 3);
  const Value thin = decoded("H10", "thin_1x2000.png");
  EXPECT_EQ(run_map(resize_long_side(64), thin).shape, (Shape{64, 1, 3}));
  EXPECT_EQ(run_map(resize_short_side(64), thin).shape, (Shape{128000, 64, 3}));
  EXPECT_TRUE(test::near(run_map(resize(64, 64), thin), test::flat_picture(64, 64, 3, 90)));
}

TEST_F(CasesTest, H11BehindTheFirstPicture) { check_files("H11"); }

TEST_F(CasesTest, H12RareKindsOfJpeg) {
  check_files("H12");
  for (const auto& [file, text] :
       {std::pair{"precision_12.jpg", "precision 12"}, {"lossless_sof3.jpg", "SOF type 0xc3"}}) {
    try {
      decoded("H12", file);
      ADD_FAILURE() << file;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  }
}

TEST_F(CasesTest, H17EmptyFilesAndTexts) {
  check_error("H17", "x/empty.jpg", {{"error", "empty_file"}});
  check_error("H17", "x/text.jpg", {{"error", "unsupported_format"}});
}

}  // namespace
}  // namespace penstock
