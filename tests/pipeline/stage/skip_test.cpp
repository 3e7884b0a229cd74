// skip over a stream.
#include <gtest/gtest.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator rest(std::uint64_t count, ListOperator::Items items) { return last_stage(numbers(1).skip(count), items); }

TEST(SkipTest, LeavesOutTheFirstElementsErrorsAmongThem) {
  EXPECT_EQ(shown(rest(2, list("01234"))), "2 3 4");
  EXPECT_EQ(shown(rest(2, list("0!2!"))), "2 !");
  EXPECT_EQ(shown(rest(0, list("01"))), "0 1");
  EXPECT_EQ(shown(rest(5, list("01"))), "");
}

TEST(SkipTest, CountsNoSkippedOnes) { EXPECT_EQ(shown(rest(2, list("0~~3~5"))), "~ ~ ~ 5"); }

TEST(SkipTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    for (const std::uint64_t count : {0, 1, 4, 100}) expect_lawful(rest(count, items));
  }
}

}  // namespace
}  // namespace penstock
