// generator: samples that a function makes.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/pipeline/draw.h>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

Schema number_schema() { return Schema({{"x", DataType::kI64, {}}}); }

/// from, from + 1, ..., to - 1; its text is the next number.
SampleRange counting(std::int64_t from, std::int64_t to, std::size_t* saves = nullptr) {
  auto at = std::make_shared<std::int64_t>(from);
  return SampleRange(
      [at, to]() -> std::optional<Sample> {
        if (*at == to) return std::nullopt;
        return number_sample((*at)++);
      },
      [at, saves] {
        if (saves) ++*saves;
        return std::to_string(*at);
      });
}

GeneratorOptions restorable(std::int64_t to) {
  return {.name = "count",
          .restore = [to](std::uint64_t, const std::string& text) { return counting(std::stoll(text), to); }};
}

MakeOperator counter(std::int64_t to) {
  return first_stage(generator(number_schema(), [to](std::uint64_t) { return counting(0, to); }, restorable(to)), {});
}

TEST(GeneratorTest, GivesWhatItsRangeGives) {
  EXPECT_EQ(shown(counter(4)), "0 1 2 3");
  EXPECT_EQ(shown(counter(1)), "0");
  EXPECT_EQ(shown(counter(0)), "");
}

TEST(GeneratorTest, IsMadeAnewForEachEpoch) {
  StreamFixture fixture;
  const auto root = first_stage(generator(number_schema(),
                                          [](std::uint64_t epoch) {
                                            return counting(static_cast<std::int64_t>(epoch) * 10,
                                                            static_cast<std::int64_t>(epoch) * 10 + 2);
                                          }),
                                {})(fixture.context, {});
  root->start({0, 0, false});
  EXPECT_EQ(shown(drain(fixture, *root)), "0 1");
  root->start({3, 0, false});
  EXPECT_EQ(shown(drain(fixture, *root)), "30 31");
}

TEST(GeneratorTest, TakesContainersAndCallables) {
  EXPECT_EQ(
      shown(first_stage(
          generator(number_schema(), [](std::uint64_t) { return std::vector<Sample>(2, number_sample(5)); }), {})),
      "5 5");
  EXPECT_EQ(shown(first_stage(generator(number_schema(),
                                        [](std::uint64_t) {
                                          return [i = 0]() mutable -> std::optional<Sample> {
                                            if (i == 2) return std::nullopt;
                                            return number_sample(i++);
                                          };
                                        }),
                              {})),
            "0 1");
}

TEST(GeneratorTest, SamplesAreNumberedAndNamedByTheirSource) {
  StreamFixture fixture;
  fixture.context.source_count = 2;
  fixture.context.sources.resize(2);
  const auto root = counter(3)(fixture.context, {});
  EXPECT_EQ(fixture.context.source_count, 3U);
  ASSERT_EQ(fixture.context.sources.size(), 3U);
  EXPECT_EQ(fixture.context.sources[2]->describe(7), "count[7]");
  root->start({});
  const auto got = drain(fixture, *root);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{2, 1}}));
  EXPECT_EQ(got[1].sample.origin(), (Origin{2, 1}));
  EXPECT_NE(got[1].lineage, got[2].lineage);
  root->start({0, 5, true});
  const auto repeated = drain(fixture, *root);
  EXPECT_EQ(repeated[1].lineage, mix_lineage(got[1].lineage, 5));
}

TEST(GeneratorTest, AMakeThatThrowsIsOneErrorAndTheEnd) {
  const Pipeline pipeline = generator(
      number_schema(), [](std::uint64_t) -> SampleRange { throw std::runtime_error("no port"); }, {.name = "camera"});
  const auto got = run(first_stage(pipeline, {}));
  EXPECT_EQ(shown(got), "!");
  EXPECT_EQ(error_text(got[0]), "camera: no port");
  EXPECT_EQ(got[0].failure->origin, (Origin{0, 0}));
}

/// 0, 1, then throws `thrown`.
template <class T>
MakeOperator breaking(T thrown) {
  return first_stage(generator(number_schema(),
                               [thrown](std::uint64_t) {
                                 return [thrown, i = 0]() mutable -> std::optional<Sample> {
                                   if (i == 2) throw thrown;
                                   return number_sample(i++);
                                 };
                               }),
                     {});
}

TEST(GeneratorTest, ARangeThatThrowsEndsWithAnErrorInTheSamplesPlace) {
  const auto got = run(breaking(std::runtime_error("cable pulled")));
  EXPECT_EQ(shown(got), "0 1 !");
  EXPECT_EQ(error_text(got[2]), "generator: cable pulled");
  EXPECT_EQ(got[2].failure->origin, (Origin{0, 2}));
  EXPECT_THROW(std::rethrow_exception(run(breaking(9))[2].failure->error), int);
  EXPECT_EQ(shown(run(skipping(breaking(9)))), "0 1 ~");
}

TEST(GeneratorTest, ASampleOfAnotherSchemaIsAnErrorAndTheRangeGoesOn) {
  const auto got =
      run(first_stage(generator(number_schema(),
                                [](std::uint64_t) {
                                  return std::vector<Sample>{
                                      number_sample(1), Sample({"x"}, {Tensor::scalar<float>(2)}), number_sample(3)};
                                }),
                      {}));
  EXPECT_EQ(shown(got), "1 ! 3");
  EXPECT_EQ(error_text(got[1]), "generator: the function returned \"x\" as f32 [], expected i64 []");
}

TEST(GeneratorTest, WithoutSaveAndRestoreTheCursorNamesTheStage) {
  StreamFixture fixture;
  for (const bool can_restore : {false, true}) {
    GeneratorOptions options = can_restore ? restorable(9) : GeneratorOptions{.name = "count"};
    const Pipeline pipeline = generator(
        number_schema(),
        [can_restore](std::uint64_t) {
          return can_restore ? SampleRange([]() -> std::optional<Sample> { return number_sample(1); }) : counting(0, 9);
        },
        options);
    const auto root = first_stage(pipeline, {})(fixture.context, {});
    root->start({});
    Cursor before;
    root->save(before);
    EXPECT_EQ(before.unsaved_stage, "") << "the start of an epoch is always a place to start";
    engine::Element element;
    ASSERT_EQ(root->next(element), engine::Pull::kElement);
    Cursor cursor;
    root->save(cursor);
    EXPECT_EQ(cursor.unsaved_stage, "count");
  }
}

TEST(GeneratorTest, ASampleThatFindsNoRoomComesAgainAfterRestore) {
  for (const std::size_t returned : {1U, 31U, 32U, 33U, 70U}) {
    StreamFixture fixture({.threads = 1, .budget_bytes = 8}, 8, 0);
    const auto root = counter(100)(fixture.context, {});
    root->start({});
    engine::Element held;
    for (std::size_t i = 0; i < returned; ++i) {
      held = {};
      ASSERT_EQ(root->next(held), engine::Pull::kElement);
    }
    engine::Element next;
    ASSERT_EQ(root->next(next), engine::Pull::kPending);
    Cursor cursor;
    root->save(cursor);
    held = {};
    ASSERT_EQ(root->next(next), engine::Pull::kElement);
    EXPECT_EQ(shown(next), std::to_string(returned)) << "made once";
    next = {};
    engine::CursorReader reader(cursor);
    root->restore({}, reader);
    ASSERT_EQ(root->next(next), engine::Pull::kElement);
    EXPECT_EQ(shown(next), std::to_string(returned));
    EXPECT_EQ(next.origins, (std::vector<Origin>{{0, returned}}));
  }
}

TEST(GeneratorTest, AsksForTheTextNowAndThenOnly) {
  std::size_t saves = 0;
  const Pipeline pipeline =
      generator(number_schema(), [&saves](std::uint64_t) { return counting(0, 100, &saves); }, restorable(100));
  EXPECT_EQ(run(first_stage(pipeline, {})).size(), 100U);
  EXPECT_LE(saves, 4U);
}

TEST(GeneratorTest, SaysItsSchemaAndSize) {
  const Pipeline pipeline =
      generator(number_schema(), [](std::uint64_t) { return counting(0, 3); }, {.name = "count", .size = 3});
  EXPECT_EQ(pipeline.schema().to_string(), "x: i64 []");
  EXPECT_EQ(pipeline.size(), 3U);
  EXPECT_FALSE(generator(number_schema(), [](std::uint64_t) { return counting(0, 3); }).size().has_value());
  EXPECT_EQ(refusal([] { static_cast<void>(generator(Schema(), [](std::uint64_t) { return counting(0, 3); })); }),
            "generator: a schema without fields");
  EXPECT_EQ(refusal([] { static_cast<void>(generator(number_schema(), std::function<SampleRange(std::uint64_t)>())); }),
            "generator: a stage without a function");
  EXPECT_EQ(refusal([] {
              static_cast<void>(generator(number_schema(), [](std::uint64_t) { return counting(0, 3); }, {.name = ""}));
            }),
            "generator: a stage without a name");
}

TEST(GeneratorTest, IsLawful) {
  for (const std::int64_t count : {0, 1, 7, 70}) {
    expect_lawful(alone(counter(count)));
    expect_lawful(alone(counter(count)), {2, 7, true});
  }
  expect_lawful(alone(breaking(3)));
}

}  // namespace
}  // namespace penstock
