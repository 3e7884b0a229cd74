// repeat over a stream.
#include <gtest/gtest.h>

#include <set>

#include <penstock/pipeline/draw.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator repeated(std::uint64_t count, ListOperator::Items items) {
  return last_stage(numbers(1).repeat(count), items);
}

TEST(RepeatTest, GivesEveryPassInFull) {
  EXPECT_EQ(shown(repeated(3, list("0!~3"))), "0 ! ~ 3 0 ! ~ 3 0 ! ~ 3");
  EXPECT_EQ(shown(repeated(1, list("01"))), "0 1");
}

/// What passes it was started with.
class PassRecorder final : public engine::Operator {
 public:
  explicit PassRecorder(std::vector<engine::Pass>& passes) : passes_(passes) {}
  void start(const engine::Pass& pass) override { passes_.push_back(pass); }
  engine::Pull next(engine::Element&) override { return engine::Pull::kEnd; }
  void save(Cursor&) const override {}
  void restore(const engine::Pass& pass, engine::CursorReader&) override { passes_.push_back(pass); }

 private:
  std::vector<engine::Pass>& passes_;
};

TEST(RepeatTest, MixesPassesAsTheOrderDoes) {
  StreamFixture fixture;
  std::vector<engine::Pass> passes;
  const auto root = stage::make_operator(RepeatStage{3}, fixture.context, std::make_unique<PassRecorder>(passes));
  root->start({.epoch = 5, .passes = 77, .repeated = true});
  EXPECT_EQ(drain(fixture, *root).size(), 0u);
  ASSERT_EQ(passes.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(passes[i].epoch, 5u);
    EXPECT_EQ(passes[i].passes, mix_lineage(77, i));
    EXPECT_TRUE(passes[i].repeated);
  }
}

TEST(RepeatTest, LetsOthersHaveATurnBetweenEmptyPasses) {
  StreamFixture fixture;
  const auto root = repeated(std::uint64_t{1} << 60, list(""))(fixture.context, {});
  root->start({});
  engine::Element element;
  const std::uint64_t seen = fixture.wakes();
  EXPECT_EQ(root->next(element), engine::Pull::kPending);
  EXPECT_EQ(fixture.wakes(), seen + 1);
}

TEST(RepeatTest, PassesHaveTheirOwnLineages) {
  std::set<std::uint64_t> lineages;
  for (const engine::Element& element : run(repeated(4, list("012")))) lineages.insert(element.lineage);
  EXPECT_EQ(lineages.size(), 12u);
}

TEST(RepeatTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    for (const std::uint64_t count : {1, 2, 3}) expect_lawful(repeated(count, items));
  }
  expect_lawful(repeated(2, list("012")), {.epoch = 3, .passes = 9, .repeated = true});
}

}  // namespace
}  // namespace penstock
