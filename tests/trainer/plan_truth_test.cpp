// The plan's lifetimes are proved: bytes that the plan calls dead are poisoned before every operation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/trainer/models.h>
#include <penstock/trainer/step_plan.h>

#include "trainer/device_rig.h"

namespace penstock::trainer {
namespace {

constexpr std::uint8_t kNanByte = 0xff;  // four of them are a NaN, one is an index that no window has

std::function<void(const BoundProgram&, std::size_t)> poison_dead(test::DeviceRig& rig) {
  return [&rig](const BoundProgram& bound, std::size_t step) {
    for (const ArenaRange& range : bound.plan().dead_before(step)) {
      rig.device->fill(bound.arena() + range.begin, kNanByte, range.end - range.begin, rig.stream);
    }
  };
}

struct Case {
  const char* name;
  ModelGraph graph;
  std::size_t batch;
};

ModelGraph small(const std::string& model) {
  return make_model(model, {.width = 4, .input = Shape{8, 8, 1}, .class_count = 10, .label_smoothing = 0.1F});
}

// Every kind of operation, and the shapes in which gradients are shared: a value with two readers, a doubled value, a
// relu before the loss.
ModelGraph every_kind() {
  ModelGraph graph(Shape{8, 8, 3});
  ValueId x = graph.conv("conv", ModelGraph::input(), 4, 3, 2, 1);
  x = graph.batch_norm("norm", x);
  const ValueId doubled = graph.add("doubled", x, x);
  const ValueId left = graph.relu("left", graph.conv("left.conv", doubled, 4, 1, 1, 0));
  x = graph.add("sum", doubled, left);
  x = graph.scale("half", x, 0.5F);
  x = graph.max_pool("pool", x, 2);
  x = graph.global_average_pool("average", x);
  x = graph.relu("last", graph.linear("linear", x, 5));
  graph.softmax_cross_entropy("loss", x, 0.1F);
  return graph;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const std::size_t batch : {2, 5}) {
    list.push_back({"mlp", small("mlp"), batch});
    list.push_back({"resnet9", small("resnet9"), batch});
    list.push_back({"every kind", every_kind(), batch});
  }
  return list;
}

TEST(PlanTruthTest, PoisonInDeadBytesChangesNothing) {
  test::DeviceRig rig;
  for (const Case& one : cases()) {
    test::ModelRig model(rig, one.graph, one.batch);
    for (const bool training : {true, false}) {
      StepProgram program = training ? training_program(one.graph, model.layout(), one.batch, *rig.backend, {})
                                     : evaluation_program(one.graph, model.layout(), one.batch, *rig.backend, {});
      const auto bound = model.bind(std::move(program));
      std::vector<std::vector<std::byte>> slabs;
      for (const bool poisoned : {false, true}) {
        model.restart(1);
        for (int step = 0; step < 2; ++step) {
          model.run(bound, 0.1F, static_cast<std::int32_t>(one.batch), poisoned ? poison_dead(rig) : nullptr);
        }
        slabs.push_back(model.slab());
      }
      EXPECT_TRUE(slabs[0] == slabs[1]) << one.name << " batch " << one.batch << (training ? " train" : " val");
      const MetricSums sums = model.sums(training ? model.layout().train_metrics : model.layout().val_metrics);
      EXPECT_EQ(sums.count, static_cast<std::int64_t>(2 * one.batch));
      EXPECT_EQ(sums.not_finite, 0);
      EXPECT_TRUE(std::isfinite(sums.loss) && sums.loss > 0);
    }
  }
}

TEST(PlanTruthTest, AnyLifeShortenedByOneOperationIsFound) {
  test::DeviceRig rig;
  for (const Case& one : cases()) {
    test::ModelRig model(rig, one.graph, one.batch);
    for (const bool training : {true, false}) {
      const auto make = [&] {
        return training ? training_program(one.graph, model.layout(), one.batch, *rig.backend, {})
                        : evaluation_program(one.graph, model.layout(), one.batch, *rig.backend, {});
      };
      const StepProgram program = make();
      const StepPlan plan = plan_steps(program);
      model.run(model.bind(make()));
      const std::vector<std::byte> truth = model.slab();
      std::size_t tried = 0;
      for (std::size_t id = 0; id < plan.buffers.size(); ++id) {
        const Placement& place = plan.buffers[id];
        if (place.bytes == 0 || place.last == place.first) continue;
        // A life that ends with a write ends with nothing that anybody could miss.
        const std::vector<BufferId>& reads = program.steps[place.last].reads;
        if (std::find(reads.begin(), reads.end(), static_cast<BufferId>(id)) == reads.end()) continue;
        StepPlan shortened = plan;
        --shortened.buffers[id].last;
        model.restart(1);
        model.run(model.bind(make(), shortened), 0.1F, static_cast<std::int32_t>(one.batch), poison_dead(rig));
        EXPECT_FALSE(model.slab() == truth) << one.name << (training ? " train " : " val ") << program.buffers[id].name;
        ++tried;
      }
      EXPECT_GT(tried, training ? 6U : 4U);
      model.restart(1);
    }
  }
}

// What operations really touch, told from two different fillings of the arena and its surroundings.
TEST(PlanTruthTest, TouchesTheWholePlannedPeakAndNothingBeyond) {
  test::DeviceRig rig;
  constexpr std::uint64_t kBeyond = 4096;
  for (const Case& one : cases()) {
    test::ModelRig model(rig, one.graph, one.batch);
    for (const bool training : {true, false}) {
      const auto bound =
          model.bind(training ? training_program(one.graph, model.layout(), one.batch, *rig.backend, {})
                              : evaluation_program(one.graph, model.layout(), one.batch, *rig.backend, {}));
      const std::uint64_t peak = bound->plan().peak_bytes;
      std::uint64_t touched = 0;
      for (const int filling : {0x5a, 0xa5}) {
        std::memset(bound->arena(), filling, peak + kBeyond);
        model.restart(1);
        model.run(bound);
        for (std::uint64_t at = touched; at < peak + kBeyond; ++at) {
          if (bound->arena()[at] != static_cast<std::byte>(filling)) touched = at + 1;
        }
      }
      EXPECT_EQ(gpu::round_up(touched, gpu::kArenaAlignment), peak)
          << one.name << " batch " << one.batch << (training ? " train" : " val");
    }
  }
}

TEST(PlanTruthTest, RowsThatAreNotThereCountForNothing) {
  test::DeviceRig rig;
  const ModelGraph graph = small("resnet9");
  test::ModelRig whole(rig, graph, 8);
  test::ModelRig partial(rig, graph, 8);
  const auto bound_whole = whole.bind(evaluation_program(graph, whole.layout(), 8, *rig.backend, {}));
  const auto bound_partial = partial.bind(evaluation_program(graph, partial.layout(), 8, *rig.backend, {}));
  // The same eight samples, at once or as 5 and 3 with rubbish in the rows behind.
  whole.run(bound_whole, 0, 8);
  partial.run(bound_partial, 0, 5);
  const std::size_t pixels = 64;
  std::memmove(partial.image(), partial.image() + 5 * pixels, 3 * pixels);
  std::memmove(partial.labels(), partial.labels() + 5, 3 * sizeof(std::int64_t));
  std::memset(partial.image() + 3 * pixels, 0xee, 5 * pixels);
  for (int row = 3; row < 8; ++row) partial.labels()[row] = 1000000;
  partial.run(bound_partial, 0, 3);
  const MetricSums a = whole.sums(whole.layout().val_metrics);
  const MetricSums b = partial.sums(partial.layout().val_metrics);
  EXPECT_EQ(a.count, 8);
  EXPECT_EQ(b.count, 8);
  EXPECT_EQ(a.top1, b.top1);
  EXPECT_EQ(a.top5, b.top5);
  EXPECT_NEAR(a.loss, b.loss, 1e-4);
}

TEST(PlanTruthTest, EvaluationLeavesTrainingStateBitForBit) {
  test::DeviceRig rig;
  const ModelGraph graph = small("resnet9");
  test::ModelRig model(rig, graph, 6);
  const auto train = model.bind(training_program(graph, model.layout(), 6, *rig.backend, {}));
  model.run(train);
  const std::vector<std::byte> before = model.slab();
  for (const std::size_t batch : {1, 6}) {
    const auto val = model.bind(evaluation_program(graph, model.layout(), batch, *rig.backend, {}));
    model.run(val, 0, static_cast<std::int32_t>(batch));
    model.run(val, 0, static_cast<std::int32_t>(batch));
  }
  const std::vector<std::byte> after = model.slab();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(model.layout().state_bytes),
                         after.begin()));
  EXPECT_EQ(model.sums(model.layout().val_metrics).count, 14);
}

}  // namespace
}  // namespace penstock::trainer
