// Pictures for the tests of image maps: made by formula, read from tests/data/image, compared with a tolerance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/map_runner.h"

namespace penstock::test {

/// The same formula as in tests/data/image/make_fixtures.py.
inline Value picture(std::int64_t height, std::int64_t width, std::int64_t channels = 3) {
  std::vector<std::uint8_t> values;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      for (std::uint32_t c = 0; c < channels; ++c) {
        const std::uint32_t noise = (x * 2654435761U + y * 40503U + c * 7919U) >> 9;
        values.push_back(static_cast<std::uint8_t>(x * 3 + y * 5 + c * 60 + (noise & 63)));
      }
    }
  }
  return u8_value(Shape{height, width, channels}, values);
}

inline Value flat_picture(std::int64_t height, std::int64_t width, std::int64_t channels, std::uint8_t level) {
  return u8_value(Shape{height, width, channels},
                  std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * channels), level));
}

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::filesystem::path fixture_path(const std::string& name) {
  return std::filesystem::path(PENSTOCK_TEST_DATA) / "image" / name;
}
inline std::vector<std::byte> fixture(const std::string& name) { return read_bytes(fixture_path(name)); }

/// A stored answer: NAME.ppm or NAME.pgm.
inline Value stored_pixels(const std::string& name) {
  std::ifstream file(fixture_path(name), std::ios::binary);
  std::string magic;
  std::int64_t width = 0, height = 0, maximum = 0;
  file >> magic >> width >> height >> maximum;
  file.get();
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::int64_t channels = magic == "P6" ? 3 : 1;
  if (!file.is_open() || maximum != 255 || static_cast<std::int64_t>(text.size()) != height * width * channels) {
    throw std::runtime_error("no picture in " + name);
  }
  const auto bytes = std::as_bytes(std::span(text));
  return {DataType::kU8, Shape{height, width, channels}, {bytes.begin(), bytes.end()}};
}

inline Value encoded(std::vector<std::byte> bytes) {
  const Shape shape{static_cast<std::int64_t>(bytes.size())};
  return {DataType::kU8, shape, std::move(bytes)};
}

/// Equal type and shape, and no value further off than `tolerance`.
inline testing::AssertionResult near(const Value& got, const Value& wanted, int tolerance = 0) {
  if (got.type != wanted.type || got.shape != wanted.shape) {
    return testing::AssertionFailure() << to_string(got.type) << " " << got.shape.to_string() << " against "
                                       << to_string(wanted.type) << " " << wanted.shape.to_string();
  }
  const auto a = got.as<std::uint8_t>(), b = wanted.as<std::uint8_t>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > tolerance) {
      return testing::AssertionFailure() << "value " << i << " of " << a.size() << " is " << int{a[i]}
                                         << ", and should be " << int{b[i]};
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace penstock::test
