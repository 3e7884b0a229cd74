// take_while: the samples before the first that is not wanted.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

Pipeline below(std::int64_t limit) {
  return numbers(9).take_while([limit](const Sample& sample) { return number_of(sample) < limit; });
}

TEST(TakeWhileTest, EndsBeforeTheFirstThatIsNotWanted) {
  EXPECT_EQ(shown(last_stage(below(3), list("012345"))), "0 1 2");
  EXPECT_EQ(shown(last_stage(below(0), list("012345"))), "");
  EXPECT_EQ(shown(last_stage(below(100), list("012"))), "0 1 2");
  EXPECT_EQ(shown(last_stage(below(3), list(""))), "");
}

TEST(TakeWhileTest, ErrorsAndSkippedPassWithoutBeingAsked) {
  EXPECT_EQ(shown(last_stage(below(3), list("!1~!4!"))), "! 1 ~ !");
}

TEST(TakeWhileTest, WantedSamplesPassUnchanged) {
  const ListOperator::Items items = list("012");
  EXPECT_EQ(texts(run(last_stage(below(9), items))), texts(*items));
}

TEST(TakeWhileTest, APredicateThatThrowsIsAnErrorOfItsSample) {
  const Pipeline pipeline = numbers(9).take_while([](const Sample& sample) -> bool {
    if (number_of(sample) == 1) throw std::runtime_error("odd one");
    if (number_of(sample) == 2) throw 7;
    return number_of(sample) < 4;
  });
  const auto got = run(last_stage(pipeline, list("012345")));
  EXPECT_EQ(shown(got), "0 ! ! 3");
  EXPECT_EQ(error_text(got[1]), "take_while: odd one");
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 1}}));
  EXPECT_THROW(std::rethrow_exception(got[2].failure->error), int);
  EXPECT_EQ(shown(run(skipping(last_stage(pipeline, list("012345"))))), "0 ~ ~ 3");
}

TEST(TakeWhileTest, DoesNotAskItsInputAfterTheEnd) {
  StreamFixture fixture;
  std::size_t calls = 0;
  const Pipeline pipeline = numbers(9).take_while([&calls](const Sample&) { return ++calls < 2; });
  const auto root = last_stage(pipeline, list("0123"))(fixture.context, {});
  root->start({});
  EXPECT_EQ(shown(drain(fixture, *root)), "0");
  engine::Element element;
  EXPECT_EQ(root->next(element), engine::Pull::kEnd);
  EXPECT_EQ(calls, 2U);
}

TEST(TakeWhileTest, ABatchIsOneElement) {
  const Pipeline pipeline = numbers(9).batch(2, LastBatch::kDrop).take_while([](const Sample& batch) {
    return batch["x"].view<std::int64_t>()[1] < 4;
  });
  EXPECT_EQ(shown(last_stage(pipeline, lists({2, 3, 4, 5}))), "[2 2] [3 3 3]");
}

TEST(TakeWhileTest, KeepsSchemaAndIdentityAndKnowsNoSize) {
  EXPECT_EQ(below(3).schema().to_string(), "x: i64 []");
  EXPECT_FALSE(below(3).size().has_value());
  EXPECT_TRUE(std::get<std::shared_ptr<const StreamStage>>(below(3).plan().stages.back())->keeps_identity);
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(3).take_while(nullptr)); }),
            "take_while: a stage without a function");
}

TEST(TakeWhileTest, IsLawful) {
  for (const ListOperator::Items& items : hard_lists()) {
    expect_lawful(last_stage(below(4), items));
    expect_lawful(last_stage(below(100), items), {2, 5, true});
  }
}

}  // namespace
}  // namespace penstock
