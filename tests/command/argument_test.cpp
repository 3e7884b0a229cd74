// Numbers, sizes and caches as they are typed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/command/argument.h>

namespace penstock::trainer::command {
namespace {

using ::testing::ThrowsMessage;

TEST(ArgumentTest, ReadsWhatIsMeant) {
  EXPECT_EQ(parse_count("--batch", "128", 1), 128u);
  EXPECT_EQ(parse_count("--seed", "18446744073709551615", 0), 18446744073709551615u);
  EXPECT_EQ(parse_rate("--lr", "0.25"), 0.25);
  EXPECT_EQ(parse_rate("--lr", "5e-4"), 5e-4);
  EXPECT_EQ(parse_bytes("--val-cap", "1.5MB"), 1500000u);
  EXPECT_EQ(parse_cache("--cache", "memory:2KiB"), 2048u);
}

TEST(ArgumentTest, RefusesWithOptionAndText) {
  EXPECT_THAT(
      [] { parse_count("--batch", "18446744073709551616", 1); },
      ThrowsMessage<InvalidArgument>("--batch: a whole number of at least 1 is expected, got '18446744073709551616'"));
  EXPECT_THAT([] { parse_count("--batch", "", 1); },
              ThrowsMessage<InvalidArgument>("--batch: a whole number of at least 1 is expected, got ''"));
  EXPECT_THAT([] { parse_rate("--lr", "nan"); },
              ThrowsMessage<InvalidArgument>("--lr: a number of at least 0 is expected, got 'nan'"));
  EXPECT_THAT([] { parse_bytes("--val-cap", "0MiB"); },
              ThrowsMessage<InvalidArgument>("--val-cap: a size above 0 is expected, got '0MiB'"));
  EXPECT_THAT([] { parse_cache("--cache", "disk:x,1GiB"); },
              ThrowsMessage<InvalidArgument>("--cache: memory:SIZE is expected, as in memory:1GiB, got 'disk:x,1GiB'"));
}

}  // namespace
}  // namespace penstock::trainer::command
