#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/byte_text.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

TEST(ParseSizeTest, ReadsBytesBinaryAndDecimalUnits) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"200000000", 200000000},
      {"7B", 7},
      {"64MiB", std::uint64_t{64} << 20},
      {"64 MiB", std::uint64_t{64} << 20},
      {"64mib", std::uint64_t{64} << 20},
      {"1.5GB", 1500000000},
      {"1.5GiB", std::uint64_t{3} << 29},
      {"3kB", 3000},
      {"3KiB", 3072},
      {"2MB", 2000000},
      {"2TB", 2000000000000},
      {"1TiB", std::uint64_t{1} << 40},
      {"0.000001MiB", 1},
      {"2.11 GiB", 2265595248},
      {"18446744073709551615", kNoCap},
      {"16777215TiB", std::uint64_t{16777215} << 40},
  };
  for (const auto& [text, bytes] : cases) EXPECT_EQ(parse_size(text), bytes) << text;
}

TEST(ParseSizeTest, RefusesWhatIsNoSize) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "it does not begin with a digit"},
      {"-1", "it does not begin with a digit"},
      {"+1", "it does not begin with a digit"},
      {" 1", "it does not begin with a digit"},
      {".5GiB", "it does not begin with a digit"},
      {"nan", "it does not begin with a digit"},
      {"inf", "it does not begin with a digit"},
      {"MiB", "it does not begin with a digit"},
      {"1.", "no digit follows the point"},
      {"1.GiB", "no digit follows the point"},
      {"1.5", "bytes are a whole number"},
      {"1.5B", "bytes are a whole number"},
      {"1.1234567GiB", "more than 6 digits follow the point"},
      {"64M", "\"M\" is no unit"},
      {"64 Mi B", "\"Mi B\" is no unit"},
      {"64MiB ", "\"MiB \" is no unit"},
      {"64  MiB", "\" MiB\" is no unit"},
      {"64 ", "no unit follows the space"},
      {"1e9", "\"e9\" is no unit"},
      {"0x10", "\"x10\" is no unit"},
      {"1,5GB", "\",5GB\" is no unit"},
      {"18446744073709551616", "it is too large"},
      {"16777216TiB", "it is too large"},
      {"99999999999999999999999999GiB", "it is too large"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT([&] { parse_size(text); },
                ThrowsMessage<InvalidArgument>(AllOf(StartsWith("size \"" + std::string(text) + "\": " + why),
                                                     HasSubstr("like 64MiB, 1.5GB or 200000000"))))
        << text;
  }
}

TEST(FormatSizeTest, TakesTheLargestUnitAndTwoDigits) {
  const std::pair<std::uint64_t, const char*> cases[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1.00 KiB"},
      {1536, "1.50 KiB"},
      {(std::uint64_t{1} << 20) - 1, "1.00 MiB"},
      {std::uint64_t{3} << 29, "1.50 GiB"},
      {std::uint64_t{1} << 40, "1.00 TiB"},
      {kNoCap, "16777216.00 TiB"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(format_size(bytes), text);
}

TEST(FormatSizeTest, NeedsAreRoundedUpAndLimitsDown) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  EXPECT_EQ(format_size_up(kGiB + 1), "1.01 GiB");
  EXPECT_EQ(format_size_down(kGiB + 1), "1.00 GiB");
  EXPECT_EQ(format_size_up(kGiB), "1.00 GiB");
  EXPECT_EQ(format_size_down(kGiB - 1), "1023.99 MiB");
  for (std::uint64_t bytes = 1; bytes < (std::uint64_t{1} << 45); bytes = bytes * 3 + 1) {
    EXPECT_GE(parse_size(format_size_up(bytes)), bytes);
    EXPECT_LE(parse_size(format_size_down(bytes)), bytes);
  }
}

}  // namespace
}  // namespace penstock::gpu
