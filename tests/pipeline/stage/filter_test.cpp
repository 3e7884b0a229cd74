// filter: rows that are dropped by one field or by the whole sample.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "pipeline/stage/serial_stage.h"
#include "support/map_runner.h"

namespace penstock {
namespace {

using namespace test;

const Schema& pair_schema() {
  static const Schema schema({{"a", DataType::kI64, {}}, {"b", DataType::kU8, {Shape::kUnknown}}});
  return schema;
}

/// Whether `stage` keeps {"a": number, "b": bytes}.
bool keeps(const MapStage& stage, std::int64_t number, const std::vector<std::uint8_t>& bytes,
           Draw draw = Draw(1, 0, 0, 0)) {
  VectorRowMemory memory;
  Row row(memory);
  row.reset({0, 4}, 2);
  row.set_cell(0, {reinterpret_cast<const std::byte*>(&number), DataType::kI64, Shape{}});
  row.set_cell(1, {reinterpret_cast<const std::byte*>(bytes.data()), DataType::kU8,
                   Shape{static_cast<std::int64_t>(bytes.size())}});
  stage.bind(pair_schema())(row, draw);
  EXPECT_EQ(row.cell(1).data, reinterpret_cast<const std::byte*>(bytes.data())) << "a filter changes nothing";
  return !row.dropped();
}

TEST(FilterTest, ByOneField) {
  const MapStage stage = value_filter("a", [](std::int64_t a) { return a > 2; });
  EXPECT_FALSE(keeps(stage, 2, {1}));
  EXPECT_TRUE(keeps(stage, 3, {1}));
  EXPECT_TRUE(stage.drops);
  EXPECT_EQ(stage.name, "filter(a)");
}

TEST(FilterTest, ByTheWholeSample) {
  const MapStage stage = sample_filter([](const Sample& sample) {
    const auto bytes = sample["b"].view<std::uint8_t>();
    return sample.origin() == Origin{0, 4} && bytes.size() == sample["a"].view<std::int64_t>()[0] && bytes[0] == 9;
  });
  EXPECT_TRUE(keeps(stage, 2, {9, 8}));
  EXPECT_FALSE(keeps(stage, 2, {8, 9}));
  EXPECT_FALSE(keeps(stage, 3, {9, 8}));
  EXPECT_TRUE(stage.drops);
  EXPECT_FALSE(stage.draws);
  EXPECT_EQ(stage.name, "filter");
}

TEST(FilterTest, ASampleThatThePredicateKeepsOutlivesTheRow) {
  auto kept = std::make_shared<Sample>();
  EXPECT_TRUE(keeps(sample_filter([kept](const Sample& sample) {
                      *kept = sample;
                      return true;
                    }),
                    5, {7, 6}));
  EXPECT_EQ((*kept)["b"].view<std::uint8_t>()[1], 6);
  EXPECT_EQ((*kept)["a"].view<std::int64_t>()[0], 5);
}

TEST(FilterTest, MayDraw) {
  const MapStage field = value_filter("a", [](std::int64_t, Draw& draw) { return draw.chance(0.5); });
  const MapStage sample = sample_filter([](const Sample&, Draw& draw) { return draw.chance(0.5); });
  EXPECT_TRUE(field.draws && sample.draws);
  std::size_t kept = 0;
  for (std::uint64_t lineage = 0; lineage < 200; ++lineage) {
    const Draw draw(3, 0, lineage, 0);
    const bool expected = Draw(draw).chance(0.5);
    EXPECT_EQ(keeps(field, 1, {1}, draw), expected);
    EXPECT_EQ(keeps(sample, 1, {1}, draw), expected);
    kept += expected ? 1 : 0;
  }
  EXPECT_GT(kept, 60U);
  EXPECT_LT(kept, 140U);
}

TEST(FilterTest, ChecksItsFieldAndKeepsTheSchema) {
  const Pipeline pipeline = numbers(3).filter("x", [](std::int64_t) { return true; });
  EXPECT_EQ(pipeline.schema().to_string(), "x: i64 []");
  EXPECT_FALSE(pipeline.size().has_value());
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(3).filter("y", [](std::int64_t) { return true; })); }),
            "filter(y): there is no field \"y\"; there are: x");
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(3).filter("x", [](float) { return true; })); }),
            "filter(x): the function takes f32, field \"x\" is i64");
}

}  // namespace
}  // namespace penstock
