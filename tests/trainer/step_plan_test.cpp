#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include <penstock/trainer/models.h>
#include <penstock/trainer/step_plan.h>

#include "trainer/device_rig.h"

namespace penstock::trainer {
namespace {

ModelGraph small_resnet() { return resnet9({.width = 4, .input = Shape{16, 16, 1}, .class_count = 10}); }

struct Programs {
  explicit Programs(std::size_t batch, const ModelGraph& graph = small_resnet())
      : layout(graph),
        train(training_program(graph, layout, batch, *rig.backend, {})),
        val(evaluation_program(graph, layout, batch, *rig.backend, {})) {}
  test::DeviceRig rig{1};
  ModelLayout layout;
  StepProgram train;
  StepProgram val;
};

TEST(StepPlanTest, NeverPutsTwoLivingBuffersInOnePlace) {
  for (const std::size_t batch : {1, 2, 7, 32}) {
    const Programs programs(batch);
    for (const StepProgram* const program : {&programs.train, &programs.val}) {
      const StepPlan plan = plan_steps(*program);
      std::vector<Placement> all = plan.buffers;
      all.insert(all.end(), plan.scratch.begin(), plan.scratch.end());
      std::erase_if(all, [](const Placement& place) { return place.bytes == 0; });
      ASSERT_GT(all.size(), 10U);
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].offset % gpu::kArenaAlignment, 0U);
        EXPECT_LE(all[i].offset + all[i].bytes, plan.peak_bytes);
        for (std::size_t k = 0; k < i; ++k) {
          const bool at_once = all[i].first <= all[k].last && all[k].first <= all[i].last;
          const bool apart =
              all[i].offset + all[i].bytes <= all[k].offset || all[k].offset + all[k].bytes <= all[i].offset;
          EXPECT_TRUE(!at_once || apart) << program->name << " batch " << batch << " items " << i << " and " << k;
        }
      }
    }
  }
}

TEST(StepPlanTest, LosesLittleBetweenBuffers) {
  for (const std::size_t batch : {1, 3, 16, 64, 128}) {
    const Programs programs(batch);
    EXPECT_LE(plan_steps(programs.train).packing_loss(), 1.05) << batch;
    EXPECT_LE(plan_steps(programs.val).packing_loss(), 1.05) << batch;
    EXPECT_GE(plan_steps(programs.train).packing_loss(), 1.0) << batch;
  }
}

TEST(StepPlanTest, EvaluationKeepsNothingForBackward) {
  const Programs programs(32);
  const StepPlan plan = plan_steps(programs.val);
  // Every value dies with its last reader in the forward pass; only residual inputs live over more than one operation,
  // and only labels to the end.
  std::map<std::string, std::size_t> life;
  for (std::size_t id = 0; id < plan.buffers.size(); ++id) {
    const Placement& place = plan.buffers[id];
    if (place.bytes != 0) life[programs.val.buffers[id].name] = place.last - place.first;
  }
  EXPECT_EQ(life.at("labels"), programs.val.steps.size() - 1);
  EXPECT_EQ(life.at("prep.0"), 1U);
  EXPECT_EQ(life.at("prep.1"), 2U) << "relu works in place, the next convolution reads it";
  EXPECT_EQ(life.count("layer1.3.index"), 0U);
  EXPECT_LT(plan.peak_bytes, plan_steps(programs.train).peak_bytes);
}

TEST(StepPlanTest, WritesNoTrainingStateInEvaluation) {
  const Programs programs(4);
  for (const Step& step : programs.val.steps) {
    for (const BufferId id : step.writes) {
      const Buffer& buffer = programs.val.buffers[id];
      EXPECT_TRUE(buffer.home == BufferHome::kArena || buffer.offset >= programs.layout.state_bytes)
          << step.name << " writes " << buffer.name;
    }
  }
}

TEST(StepPlanTest, WorksInPlaceWhereItMay) {
  const Programs programs(4);
  const auto find = [&](const std::string& name) {
    return *std::find_if(programs.train.steps.begin(), programs.train.steps.end(),
                         [&](const Step& step) { return step.name == name; });
  };
  const Step relu = find("prep.2");
  EXPECT_EQ(relu.reads, relu.writes);
  const Step loss = find("loss");
  EXPECT_THAT(loss.writes, ::testing::Contains(loss.reads[0])) << "dlogits over logits";
  const Step norm = find("gradient.prep.1");
  EXPECT_EQ(norm.writes[0], norm.reads[4]) << "dx over dy";
  // The gradient of a sum belongs to both of its terms: the first that is changed must not change the other.
  const Step inner = find("gradient.residual1.5");
  EXPECT_NE(inner.writes[0], inner.reads[1]);
}

TEST(StepPlanTest, ReadsNothingBeforeItIsWritten) {
  const Programs programs(4);
  for (const StepProgram* const program : {&programs.train, &programs.val}) {
    std::set<BufferId> written;
    for (const Step& step : program->steps) {
      for (const BufferId id : step.reads) {
        EXPECT_TRUE(program->buffers[id].home != BufferHome::kArena || written.count(id) != 0) << step.name;
      }
      written.insert(step.writes.begin(), step.writes.end());
    }
  }
}

TEST(StepPlanTest, IsTheSameEveryTime) {
  const Programs one(16);
  const Programs other(16);
  const StepPlan a = plan_steps(one.train);
  const StepPlan b = plan_steps(other.train);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) EXPECT_EQ(a.buffers[i].offset, b.buffers[i].offset);
  EXPECT_EQ(a.peak_bytes, b.peak_bytes);
}

TEST(StepPlanTest, DeadRangesAndLivingBuffersFillTheArena) {
  const Programs programs(8);
  const StepPlan plan = plan_steps(programs.train);
  for (std::size_t step = 0; step < programs.train.steps.size(); ++step) {
    std::uint64_t dead = 0;
    for (const ArenaRange& range : plan.dead_before(step)) dead += range.end - range.begin;
    std::uint64_t alive = 0;
    for (const Placement& place : plan.buffers) {
      if (place.bytes != 0 && place.first < step && step <= place.last) alive += place.bytes;
    }
    EXPECT_EQ(dead + alive, plan.peak_bytes) << step;
  }
}

}  // namespace
}  // namespace penstock::trainer
