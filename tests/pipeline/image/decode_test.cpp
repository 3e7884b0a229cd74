// Decoding against answers of djpeg, Pillow and plain arrays; header-only refusals; formats that are not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/decode.h>
#include <penstock/pipeline/image/image_maps.h>

#include "pipeline/image/picture.h"
#include "support/map_runner.h"

namespace penstock {
namespace {

using test::encoded;
using test::fixture;
using test::near;
using test::stored_pixels;
using test::Value;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<std::string>& plain_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const char* size : {"1x1", "13x17", "17x33"}) {
      for (const char* sampling : {"444", "422", "420", "440", "411"}) {
        all.push_back(std::string("jpeg_") + size + "_" + sampling + ".jpg");
      }
    }
    for (const char* kind : {"progressive", "restart", "scans", "arithmetic", "rgb", "grey", "grey_2x2"}) {
      all.push_back(std::string("jpeg_") + kind + ".jpg");
    }
    for (const char* kind : {"grey_1", "grey_2", "grey_4", "grey_8", "grey_16", "rgb_16", "rgb_8", "rgba", "grey_alpha",
                             "palette_1", "palette_2", "palette_4", "palette_8", "palette_trns", "rgb_trns",
                             "interlaced", "interlaced_grey_2", "1x1_interlaced"}) {
      all.push_back(std::string("png_") + kind + ".png");
    }
    return all;
  }();
  return names;
}

std::string without_suffix(const std::string& name) { return name.substr(0, name.size() - 4); }

Value decoded(std::vector<std::byte> bytes, DecodeImage options = {}, std::size_t misalign = 0) {
  return test::run_map(decode_image(std::move(options)), encoded(std::move(bytes)), Draw(1, 0, 0, 0), misalign);
}

DataError error_of(std::vector<std::byte> bytes, DecodeImage options = {}) {
  try {
    decoded(std::move(bytes), std::move(options));
  } catch (const DataError& error) {
    return error;
  }
  throw std::runtime_error("it was decoded");
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(DecodeTest, GivesTheColoursOfOtherDecoders) {
  for (const std::string& name : plain_names()) {
    EXPECT_TRUE(near(decoded(fixture(name)), stored_pixels(without_suffix(name) + ".ppm"))) << name;
  }
}

TEST(DecodeTest, GivesTheGreyOfOtherDecoders) {
  for (const std::string& name : plain_names()) {
    EXPECT_TRUE(near(decoded(fixture(name), {.channels = 1}), stored_pixels(without_suffix(name) + ".pgm"))) << name;
  }
}

TEST(DecodeTest, GivesTheSamePixelsAtAnyAddress) {
  for (const std::size_t shift : {std::size_t{1}, std::size_t{16}, std::size_t{32}}) {
    EXPECT_TRUE(near(decoded(fixture("jpeg_progressive.jpg"), {}, shift), stored_pixels("jpeg_progressive.ppm")));
  }
}

TEST(DecodeTest, TurnsPicturesUpright) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const char* format : {"jpeg", "png"}) {
      const std::string name = std::string(format) + "_orientation_" + std::to_string(orientation);
      const std::vector<std::byte> bytes = fixture(name + (*format == 'j' ? ".jpg" : ".png"));
      const Value wanted = stored_pixels(name + ".ppm");
      EXPECT_TRUE(near(decoded(bytes), wanted)) << name;
      const ImageInfo info = read_image_header(bytes);
      EXPECT_EQ(info.orientation, orientation);
      EXPECT_EQ(info.height, wanted.shape[0]);
      EXPECT_EQ(info.width, wanted.shape[1]);
      const Value untouched = stored_pixels(std::string(format) + "_orientation_1.ppm");
      EXPECT_TRUE(near(decoded(bytes, {.orientation = Orientation::kIgnore}), untouched)) << name;
    }
  }
}

TEST(DecodeTest, TurnsGreyPicturesToo) {
  const Value colour = decoded(fixture("png_orientation_6.png"));
  const Value grey = decoded(fixture("png_orientation_6.png"), {.channels = 1});
  ASSERT_EQ(grey.shape, (Shape{13, 9, 1}));
  const auto rgb = colour.as<std::uint8_t>();
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) {
    EXPECT_NEAR(grey.as<std::uint8_t>()[i], 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2], 0.51);
  }
}

TEST(DecodeTest, IgnoresATurnFlagThatMakesNoSense) {
  const std::vector<std::byte> good = fixture("jpeg_orientation_6.jpg");  // big-endian Exif
  constexpr std::array kTag{std::byte{1}, std::byte{0x12}};
  const auto tag = std::search(good.begin(), good.end(), kTag.begin(), kTag.end());
  ASSERT_NE(tag, good.end());
  for (const int value : {0, 9, 255}) {
    std::vector<std::byte> bad = good;
    bad[static_cast<std::size_t>(tag - good.begin()) + 9] = static_cast<std::byte>(value);
    EXPECT_EQ(read_image_header(bad).orientation, 1);
    EXPECT_TRUE(near(decoded(bad), stored_pixels("jpeg_orientation_1.ppm")));
  }
}

TEST(DecodeTest, MixesInksWithAndWithoutAdobesMarker) {
  const Value wanted = stored_pixels("jpeg_inks.ppm");
  for (const char* name : {"jpeg_cmyk.jpg", "jpeg_ycck.jpg", "jpeg_cmyk_plain.jpg"}) {
    EXPECT_TRUE(near(decoded(fixture(name)), wanted, 5)) << name;
    EXPECT_EQ(read_image_header(fixture(name)).channels, 4);
  }
  const Value grey = decoded(fixture("jpeg_ycck.jpg"), {.channels = 1});
  ASSERT_EQ(grey.shape, (Shape{8, 32, 1}));
  EXPECT_NEAR(grey.as<std::uint8_t>()[4], 76, 5);    // red
  EXPECT_NEAR(grey.as<std::uint8_t>()[12], 150, 5);  // green
  EXPECT_NEAR(grey.as<std::uint8_t>()[20], 29, 5);   // blue
}

TEST(DecodeTest, SaysWhatTheHeaderSays) {
  const ImageInfo jpeg = read_image_header(fixture("jpeg_13x17_420.jpg"));
  EXPECT_EQ(jpeg.format, ImageFormat::kJpeg);
  EXPECT_EQ(jpeg.height, 13);
  EXPECT_EQ(jpeg.width, 17);
  EXPECT_EQ(jpeg.channels, 3);
  const ImageInfo png = read_image_header(fixture("png_grey_alpha.png"));
  EXPECT_EQ(png.format, ImageFormat::kPng);
  EXPECT_EQ(png.height, 9);
  EXPECT_EQ(png.width, 13);
  EXPECT_EQ(png.channels, 2);
}

TEST(DecodeTest, ReadsTheFirstPictureOnly) {
  for (const char* name : {"jpeg_13x17_420.jpg", "png_rgb_8.png"}) {
    std::vector<std::byte> bytes = fixture(name);
    const std::vector<std::byte> second = fixture("jpeg_17x33_444.jpg");
    bytes.insert(bytes.end(), second.begin(), second.end());
    EXPECT_TRUE(near(decoded(bytes), stored_pixels(without_suffix(name) + ".ppm"))) << name;
  }
}

TEST(DecodeTest, RefusesAnEmptyFile) {
  const DataError error = error_of({});
  EXPECT_EQ(error.kind(), ErrorKind::kEmptyFile);
  EXPECT_STREQ(error.what(), "0 bytes where a picture was expected");
}

TEST(DecodeTest, NamesFormatsThatAreNotRead) {
  using namespace std::string_view_literals;
  const std::array<std::pair<std::string_view, const char*>, 6> files{{{"BM\x46\0\0\0\0\0\0\0\x36\0"sv, "BMP"},
                                                                       {"GIF89a\1\0\1\0"sv, "GIF"},
                                                                       {"RIFF\x1a\0\0\0WEBPVP8L"sv, "WebP"},
                                                                       {"II*\0\x08\0\0\0"sv, "TIFF"},
                                                                       {"MM\0*\0\0\0\x08"sv, "TIFF"},
                                                                       {"\0\0\0\x1c"
                                                                        "ftypavif"sv,
                                                                        "AVIF"}}};
  for (const auto& [bytes, name] : files) {
    const DataError error = error_of(bytes_of(bytes));
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupportedFormat);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(name), HasSubstr("JPEG and PNG are read")));
  }
  EXPECT_EQ(error_of(bytes_of("not a picture")).kind(), ErrorKind::kUnsupportedFormat);
  EXPECT_THAT(error_of(bytes_of("not a picture")).what(), HasSubstr("6e 6f 74 20 61 20 70 69"));
}

TEST(DecodeTest, NamesKindsOfJpegThatAreNotRead) {
  const std::vector<std::byte> good = fixture("jpeg_13x17_444.jpg");
  std::size_t frame = 2;  // the marker of the frame header
  while (good[frame + 1] != std::byte{0xC0}) {
    frame += 2 + (std::to_integer<std::size_t>(good[frame + 2]) << 8 | std::to_integer<std::size_t>(good[frame + 3]));
  }
  std::vector<std::byte> deep = good;
  deep[frame + 1] = std::byte{0xC1};
  deep[frame + 4] = std::byte{12};
  EXPECT_EQ(error_of(deep).kind(), ErrorKind::kUnsupportedJpeg);
  EXPECT_THAT(error_of(deep).what(), HasSubstr("precision 12"));
  std::vector<std::byte> lossless = good;
  lossless[frame + 1] = std::byte{0xC3};
  EXPECT_EQ(error_of(lossless).kind(), ErrorKind::kUnsupportedJpeg);
  EXPECT_THAT(error_of(lossless).what(), HasSubstr("SOF type 0xc3"));
}

TEST(DecodeTest, RefusesHugePicturesFromTheHeaderAlone) {
  std::vector<std::byte> jpeg = fixture("jpeg_13x17_444.jpg");
  constexpr std::array kFrame{std::byte{0xFF}, std::byte{0xC0}};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), kFrame.begin(), kFrame.end());
  for (std::ptrdiff_t i = 5; i < 9; i += 2) {
    frame[i] = std::byte{0xEA};
    frame[i + 1] = std::byte{0x60};
  }
  const DataError error = error_of(jpeg);
  EXPECT_EQ(error.kind(), ErrorKind::kImageTooLarge);
  EXPECT_THAT(error.what(), HasSubstr("60000 x 60000 pixels, more than max_pixels = 178956970"));

  std::vector<std::byte> good = fixture("png_rgb_8.png");
  EXPECT_EQ(error_of(good, {.max_pixels = 116}).kind(), ErrorKind::kImageTooLarge);
  EXPECT_TRUE(near(decoded(good, {.max_pixels = 117}), stored_pixels("png_rgb_8.ppm")));
}

TEST(DecodeTest, RefusesOptionsThatMakeNoSense) {
  EXPECT_THAT([] { decode_image({.channels = 2}); },
              ThrowsMessage<InvalidArgument>("decode_image: channels is 2, and must be 1 or 3"));
  EXPECT_THAT([] { decode_image({.max_pixels = 0}); },
              ThrowsMessage<InvalidArgument>("decode_image: max_pixels is 0, and must be at least 1"));
  EXPECT_THAT([] { read_image_header(fixture("png_rgb_8.png"), {.channels = 4}); },
              ThrowsMessage<InvalidArgument>("channels is 4, and must be 1 or 3"));
}

TEST(DecodeTest, RefusesMemoryThatIsTooSmallAndASecondCall) {
  const std::vector<std::byte> bytes = fixture("jpeg_13x17_444.jpg");
  ImageDecoder decoder(bytes);
  std::vector<std::byte> pixels(decoder.pixel_bytes()), scratch(decoder.scratch_bytes());
  EXPECT_EQ(pixels.size(), std::size_t{13 * 17 * 3});
  EXPECT_THAT([&] { decoder.decode(std::span(pixels).first(pixels.size() - 1), scratch); },
              ThrowsMessage<InvalidArgument>(HasSubstr("decode got 662 bytes for pixels")));
  EXPECT_THROW(decoder.decode(pixels, std::span(scratch).first(scratch.size() - 1)), InvalidArgument);
  decoder.decode(pixels, scratch);
  EXPECT_THAT([&] { decoder.decode(pixels, scratch); }, ThrowsMessage<InvalidArgument>("decode was called twice"));
}

TEST(DecodeTest, ADecoderMovesWithTheHeaderItHasRead) {
  const std::string name = "jpeg_13x17_444";
  const std::vector<std::byte> bytes = fixture(name + ".jpg");
  const std::vector<std::byte> others = fixture("png_rgb_8.png");
  ImageDecoder first(bytes);
  ImageDecoder second(std::move(first));
  ImageDecoder decoder(others);
  decoder = std::move(second);
  Value got{DataType::kU8, Shape{decoder.info().height, decoder.info().width, 3}, {}};
  got.bytes.resize(decoder.pixel_bytes());
  std::vector<std::byte> scratch(decoder.scratch_bytes());
  decoder.decode(got.bytes, scratch);
  EXPECT_TRUE(near(got, stored_pixels(name + ".ppm")));
}

TEST(DecodeTest, IsRefusedForAFieldThatHoldsNoBytes) {
  const Schema pixels({{"image", DataType::kU8, Shape{4, 4, 3}}});
  try {
    decode_image().output(pixels);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "field \"image\" is u8 [4, 4, 3], and must be u8 [bytes], an encoded picture");
  }
}

TEST(DecodeTest, PutsEverythingThatMattersIntoItsIdentity) {
  const std::string identity = decode_image().identity;
  EXPECT_THAT(identity,
              testing::AllOf(HasSubstr("decode_image/1"), HasSubstr("field=image"), HasSubstr("channels=3"),
                             HasSubstr("orientation=apply"), HasSubstr("libjpeg-turbo "), HasSubstr("spng ")));
  EXPECT_NE(identity, decode_image({.channels = 1}).identity);
  EXPECT_NE(identity, decode_image({.orientation = Orientation::kIgnore}).identity);
  EXPECT_NE(identity, decode_image({.max_pixels = 5}).identity);
  EXPECT_NE(identity, decode_image({.field = "photo"}).identity);
}

}  // namespace
}  // namespace penstock
