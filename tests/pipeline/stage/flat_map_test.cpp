// flat_map: one sample becomes any number of them.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include <penstock/pipeline/draw.h>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

/// v becomes v samples: 10 v, 10 v + 1, ...
SampleRange countdown(const Sample& parent) {
  return SampleRange([value = number_of(parent), i = std::int64_t{0}]() mutable -> std::optional<Sample> {
    if (i == value) return std::nullopt;
    return number_sample(10 * value + i++);
  });
}

Pipeline expanded() { return numbers(9).flat_map(countdown); }

TEST(FlatMapTest, GivesTheChildrenOfEachParentInOrder) {
  EXPECT_EQ(shown(last_stage(expanded(), list("0123"))), "10 20 21 30 31 32");
  EXPECT_EQ(shown(last_stage(expanded(), list("0"))), "");
  EXPECT_EQ(shown(last_stage(expanded(), list(""))), "");
}

TEST(FlatMapTest, ErrorsAndSkippedOfTheInputPassInTheirPlace) {
  const ListOperator::Items items = list("!1~3!");
  const auto got = run(last_stage(expanded(), items));
  EXPECT_EQ(shown(got), "! 10 ~ 30 31 32 !");
  EXPECT_EQ(text(got[0]), text((*items)[0]));
}

TEST(FlatMapTest, ChildrenHaveTheirOwnLineageAndTheParentsOrigin) {
  const auto got = run(last_stage(expanded(), list("012")));
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[1].lineage, mix_lineage(number_element(2, 2).lineage, 0));
  EXPECT_EQ(got[2].lineage, mix_lineage(number_element(2, 2).lineage, 1));
  EXPECT_EQ(got[2].origins, (std::vector<Origin>{{0, 2}}));
  EXPECT_EQ(got[2].sample.origin(), (Origin{0, 2}));
}

TEST(FlatMapTest, TakesContainersAndCallables) {
  const Pipeline of_vector = numbers(9).flat_map([](const Sample& parent) { return std::vector<Sample>(2, parent); });
  EXPECT_EQ(shown(last_stage(of_vector, list("01"))), "0 0 1 1");
  const Pipeline of_callable = numbers(9).flat_map([](const Sample& parent) {
    return [parent, left = 1]() mutable -> std::optional<Sample> {
      if (left-- == 0) return std::nullopt;
      return parent;
    };
  });
  EXPECT_EQ(shown(last_stage(of_callable, list("01"))), "0 1");
}

TEST(FlatMapTest, AFunctionThatThrowsIsOneErrorInTheParentsPlace) {
  const Pipeline pipeline = numbers(9).flat_map([](const Sample& parent) {
    if (number_of(parent) == 1) throw std::runtime_error("no children");
    if (number_of(parent) == 2) throw 42;
    return std::vector<Sample>(2, parent);
  });
  const auto got = run(last_stage(pipeline, list("0123")));
  EXPECT_EQ(shown(got), "0 0 ! ! 3 3");
  EXPECT_EQ(error_text(got[2]), "flat_map: no children");
  EXPECT_EQ(got[2].lineage, number_element(1, 1).lineage);
  EXPECT_EQ(got[2].failure->origin, (Origin{0, 1}));
  try {
    std::rethrow_exception(got[3].failure->error);
  } catch (int value) {
    EXPECT_EQ(value, 42);
  }
  EXPECT_EQ(shown(run(skipping(last_stage(pipeline, list("0123"))))), "0 0 ~ ~ 3 3");
}

/// v becomes v samples and then throws, unless v is 0.
Pipeline breaking() {
  return numbers(9).flat_map([](const Sample& parent) {
    return SampleRange([value = number_of(parent), i = std::int64_t{0}]() mutable -> std::optional<Sample> {
      if (i == value) {
        if (value == 0) return std::nullopt;
        throw std::runtime_error("broken after " + std::to_string(value));
      }
      return number_sample(10 * value + i++);
    });
  });
}

TEST(FlatMapTest, ARangeThatThrowsEndsWithAnErrorInTheChildsPlace) {
  const auto got = run(last_stage(breaking(), list("012")));
  EXPECT_EQ(shown(got), "10 ! 20 21 !");
  EXPECT_EQ(error_text(got[4]), "flat_map: broken after 2");
  EXPECT_EQ(got[4].lineage, mix_lineage(number_element(2, 2).lineage, 2));
}

TEST(FlatMapTest, AChildOfAnotherSchemaIsAnErrorAndTheRangeGoesOn) {
  const Pipeline pipeline = numbers(9).flat_map(
      [](const Sample& parent) {
        Sample good({"n", "y"},
                    {Tensor::scalar<std::int64_t>(3), Tensor::copy_of<float>(std::vector<float>{1, 2}, {2})});
        Sample wrong_type = good;
        wrong_type.set("n", Tensor::scalar<float>(1));
        Sample wrong_shape = good;
        wrong_shape.set("y", Tensor::copy_of<float>(std::vector<float>{1, 2}, {2, 1}));
        Sample missing({"n"}, {good["n"]});
        Sample more = good;
        more.set("z", good["n"]);
        static_cast<void>(parent);
        return std::vector<Sample>{wrong_type, wrong_shape, missing, more, good};
      },
      {{"y", DataType::kF32, {Shape::kUnknown}}, {"n", DataType::kI64, {}}});
  EXPECT_EQ(pipeline.schema().to_string(), "y: f32 [?], n: i64 []");
  const auto got = run(last_stage(pipeline, list("0")));
  ASSERT_EQ(got.size(), 5U);
  EXPECT_EQ(error_text(got[0]), "flat_map: the function returned \"n\" as f32 [], expected i64 []");
  EXPECT_EQ(error_text(got[1]), "flat_map: the function returned \"y\" as f32 [2, 1], expected f32 [?]");
  EXPECT_EQ(error_text(got[2]), "flat_map: the function returned no field \"y\", expected f32 [?]; it returned \"n\"");
  EXPECT_EQ(error_text(got[3]),
            "flat_map: the function returned the fields \"n\", \"y\", \"z\", expected \"y\", \"n\"");
  ASSERT_TRUE(got[4].is_value());
  EXPECT_EQ(got[4].sample.names(), (std::vector<std::string>{"y", "n"}));
  EXPECT_EQ(got[4].sample["y"].view<float>()[1], 2);
  EXPECT_EQ(got[4].lineage, mix_lineage(number_element(0, 0).lineage, 4));
}

TEST(FlatMapTest, AMillionChildrenNeedTheMemoryOfOne) {
  constexpr std::int64_t kChildren = 1'000'000;
  constexpr std::size_t kBytes = 1000;
  StreamFixture fixture({.threads = 1, .budget_bytes = 10'000}, 2 * kBytes, 0);
  std::int64_t made = 0;
  const Pipeline pipeline = numbers(1).flat_map(
      [&made](const Sample&) {
        return SampleRange([&made]() -> std::optional<Sample> {
          if (made == kChildren) return std::nullopt;
          ++made;
          static const std::vector<std::int64_t> values(kBytes / 8, 5);
          return Sample({"x"}, {Tensor::copy_of<std::int64_t>(values, {kBytes / 8})});
        });
      },
      {{"x", DataType::kI64, {kBytes / 8}}});
  const auto root = last_stage(pipeline, list("0"))(fixture.context, {});
  root->start({});
  engine::Element element;
  std::int64_t got = 0;
  while (root->next(element) == engine::Pull::kElement) {
    ASSERT_TRUE(element.is_value());
    ASSERT_EQ(element.charge.bytes(), kBytes);
    ASSERT_EQ(made, ++got) << "made when it is asked for";
  }
  EXPECT_EQ(got, kChildren);
  EXPECT_LE(fixture.context.runtime.budget()->peak(), kBytes);
}

TEST(FlatMapTest, AChildThatFindsNoRoomIsMadeOnce) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 8}, 8, 0);
  std::size_t made = 0;
  const Pipeline pipeline = numbers(1).flat_map([&made](const Sample& parent) {
    return SampleRange([&made, parent]() -> std::optional<Sample> {
      if (made == 3) return std::nullopt;
      return number_sample(static_cast<std::int64_t>(++made));
    });
  });
  const auto root = last_stage(pipeline, list("0"))(fixture.context, {});
  root->start({});
  engine::Element held;
  ASSERT_EQ(root->next(held), engine::Pull::kElement);
  engine::Element next;
  EXPECT_EQ(root->next(next), engine::Pull::kPending);
  EXPECT_EQ(root->next(next), engine::Pull::kPending);
  EXPECT_EQ(made, 2U);
  held = {};
  ASSERT_EQ(root->next(next), engine::Pull::kElement);
  EXPECT_EQ(shown(next), "2");
}

TEST(FlatMapTest, AChildAboveTheLargestSampleIsAnErrorAndTheRangeGoesOn) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 100}, 16, 0);
  const Pipeline pipeline = list_pipeline().flat_map([](const Sample&) {
    std::vector<Sample> all;
    for (const std::int64_t length : {1, 3, 2}) all.push_back(list_element(length, 0).sample);
    return all;
  });
  const auto root = last_stage(pipeline, lists({1}))(fixture.context, {});
  root->start({});
  const auto got = drain(fixture, *root);
  EXPECT_EQ(shown(got), "[1] ! [2 2]");
  EXPECT_EQ(error_text(got[1]),
            "flat_map: the sample takes 24 bytes, the most allowed is 16 (LoaderOptions::max_sample_bytes)");
}

TEST(FlatMapTest, BatchesBecomeBatches) {
  const Pipeline pipeline = numbers(9).batch(2).flat_map(
      [](const Sample& batch) { return std::vector<Sample>{batch, list_element(1, 0).sample}; });
  EXPECT_EQ(pipeline.plan().batch_depth, 1);
  engine::Element batch = list_element(2, 0);
  batch.origins = {{0, 0}, {0, 1}};
  batch.row_origins = {{{0, 0}}, {{0, 1}}};
  std::vector<engine::Element> all;
  all.push_back(std::move(batch));
  const auto got = run(last_stage(pipeline, ListOperator::items(std::move(all))));
  EXPECT_EQ(shown(got), "[2 2] [1]");
  EXPECT_EQ(got[0].row_origins, (std::vector<std::vector<Origin>>{{{0, 0}}, {{0, 1}}}));
  EXPECT_EQ(got[1].row_origins, (std::vector<std::vector<Origin>>{{{0, 0}, {0, 1}}})) << "from any row of the parent";
}

TEST(FlatMapTest, ChecksItsArguments) {
  EXPECT_FALSE(expanded().size().has_value());
  EXPECT_EQ(
      refusal([] { static_cast<void>(numbers(3).flat_map(std::function<SampleRange(const Sample&)>(), Outputs{})); }),
      "flat_map: a stage without a function");
  EXPECT_EQ(refusal([] {
              static_cast<void>(numbers(3).flat_map(countdown, {{"a", DataType::kU8, {}}, {"a", DataType::kU8, {}}}));
            }),
            "flat_map: outputs: schema: there are two fields \"a\"");
}

TEST(FlatMapTest, IsLawful) {
  for (const ListOperator::Items& items : hard_lists()) {
    expect_lawful(last_stage(expanded(), items));
    expect_lawful(last_stage(breaking(), items), {1, 9, true});
    expect_lawful(skipping(last_stage(breaking(), items)));
  }
}

TEST(FlatMapTest, InAFlatMapIsLawful) {
  const MakeOperator inner = last_stage(expanded(), list("!12~3"));
  const Stage outer = numbers(9)
                          .flat_map([](const Sample& parent) {
                            return std::vector<Sample>(static_cast<std::size_t>(number_of(parent) % 10), parent);
                          })
                          .plan()
                          .stages.back();
  expect_lawful([&](engine::StreamContext& context, const Pending& pending) {
    std::vector<std::unique_ptr<engine::Operator>> inputs;
    inputs.push_back(inner(context, pending));
    return std::get<std::shared_ptr<const StreamStage>>(outer)->make(context, std::move(inputs));
  });
}

}  // namespace
}  // namespace penstock
