// take over a stream.
#include <gtest/gtest.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator taken(std::uint64_t count, ListOperator::Items items) { return last_stage(numbers(1).take(count), items); }

TEST(TakeTest, GivesTheFirstElementsErrorsAmongThem) {
  EXPECT_EQ(shown(taken(3, list("01234"))), "0 1 2");
  EXPECT_EQ(shown(taken(3, list("0!~345"))), "0 ! ~ 3");
  EXPECT_EQ(shown(taken(9, list("01"))), "0 1");
  EXPECT_EQ(shown(taken(0, list("01"))), "");
}

TEST(TakeTest, AsksForNothingAfterTheLast) {
  StreamFixture fixture;
  // The list would be pending before its answers 2 and 3; nobody is there to go on.
  const auto root = taken(2, list("0123"))(fixture.context, {.before = {2, 3}});
  root->start({});
  engine::Element element;
  EXPECT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(root->next(element), engine::Pull::kEnd);
  EXPECT_EQ(root->next(element), engine::Pull::kEnd);
}

TEST(TakeTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    for (const std::uint64_t count : {0, 1, 4, 100}) expect_lawful(taken(count, items));
  }
}

}  // namespace
}  // namespace penstock
