#include <penstock/pipeline/source/memory.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <support/source_collect.h>

namespace penstock {
namespace {

using test::collect;
using test::refusal_of;

Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::copy_of<float>(std::span<const float>(values), shape);
}
Sample sample(std::vector<float> values, std::int64_t label) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return Sample({"x", "label"}, {floats(values, shape), Tensor::scalar(label)});
}

TEST(MemoryTest, LendsSamplesInOrder) {
  const Tensor first = floats({1, 2}, {2});
  const Pipeline pipeline =
      memory({Sample({"x", "label"}, {first, Tensor::scalar<std::int64_t>(7)}), sample({3, 4}, 8)});
  EXPECT_EQ(pipeline.schema().to_string(), "x: f32 [2], label: i64 []");
  EXPECT_EQ(pipeline.size(), 2u);
  const Source& source = *pipeline.plan().source;
  test::NoFiles files;
  EXPECT_EQ(collect(source, 0, files)->value(0).data, first.data());
  const auto second = collect(source, 1, files);
  EXPECT_EQ(reinterpret_cast<const float*>(second->value(0).data)[1], 4.0f);
  EXPECT_EQ(second->label(1), 8);
  EXPECT_TRUE(second->value(1).borrowed);
  EXPECT_EQ(source.describe(1), "memory, sample 1");
}

TEST(MemoryTest, DimensionsThatDifferAreUnknown) {
  EXPECT_EQ(memory({sample({1, 2}, 0), sample({3}, 0)}).schema().to_string(), "x: f32 [?], label: i64 []");
}

TEST(MemoryTest, RefusesSamplesThatDoNotFitEachOther) {
  EXPECT_EQ(refusal_of([] { memory({}); }), "memory: no samples, so no schema; memory_columns takes an empty set");
  EXPECT_EQ(refusal_of([] { memory({sample({1}, 0), Sample({"y"}, {Tensor::scalar(1.0f)})}); }),
            "memory: sample 1 has other fields than sample 0");
  EXPECT_EQ(refusal_of([] { memory({Sample({"x"}, {Tensor::scalar(1.0f)}), Sample({"x"}, {Tensor::scalar(1)})}); }),
            "memory: sample 1: x is i32 [], in sample 0 it is f32 []");
  EXPECT_EQ(refusal_of([] { memory({Sample({"x"}, {Tensor::scalar(1.0f)}), Sample({"x"}, {floats({1, 2}, {2})})}); }),
            "memory: sample 1: x is f32 [2], in sample 0 it is f32 []");
}

TEST(MemoryTest, FingerprintIsTheContent) {
  const Pipeline pipeline = memory({sample({1, 2}, 7), sample({1, 2}, 7), sample({1, 3}, 7), sample({1, 2}, 8)});
  const Source& source = *pipeline.plan().source;
  EXPECT_EQ(source.fingerprint(0), source.fingerprint(1));
  EXPECT_NE(source.fingerprint(0), source.fingerprint(2));
  EXPECT_NE(source.fingerprint(0), source.fingerprint(3));
  const Pipeline wide = memory({Sample({"x"}, {floats({1, 2}, {1, 2})})});
  const Pipeline tall = memory({Sample({"x"}, {floats({1, 2}, {2, 1})})});
  EXPECT_NE(wide.plan().source->fingerprint(0), tall.plan().source->fingerprint(0));
}

TEST(MemoryColumnsTest, LendsRows) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {3, 2});
  const std::vector<std::int64_t> labels{7, 8, 9};
  const Schema schema({{"x", DataType::kF32, {2}}, {"label", DataType::kI64, {}}});
  const Pipeline pipeline = memory_columns(schema, {x, Tensor::copy_of<std::int64_t>(labels, {3})});
  EXPECT_EQ(pipeline.size(), 3u);
  test::NoFiles files;
  const auto last = collect(*pipeline.plan().source, 2, files);
  EXPECT_EQ(last->value(0).data, x.data() + 4 * sizeof(float));
  EXPECT_EQ(last->value(0).shape, Shape{2});
  EXPECT_EQ(last->label(1), 9);
}

TEST(MemoryColumnsTest, ZeroRowsAreADataSet) {
  const Schema schema({{"x", DataType::kF32, {2}}});
  EXPECT_EQ(memory_columns(schema, {floats({}, {0, 2})}).size(), 0u);
}

TEST(MemoryColumnsTest, RefusesColumnsThatDoNotFit) {
  const Schema schema({{"x", DataType::kF32, {2}}, {"y", DataType::kF32, {}}});
  EXPECT_EQ(refusal_of([&] { memory_columns(schema, {floats({1, 2}, {1, 2})}); }),
            "memory_columns: 1 columns for the 2 fields of {x: f32 [2], y: f32 []}");
  EXPECT_EQ(refusal_of([&] { memory_columns(schema, {floats({1, 2, 3}, {1, 3}), floats({1}, {1})}); }),
            "memory_columns: the column of x is f32 [1, 3], samples of f32 [2] are due");
  EXPECT_EQ(refusal_of([&] { memory_columns(schema, {floats({1, 2}, {1, 2}), Tensor::scalar(1.0f)}); }),
            "memory_columns: the column of y is f32 [], samples of f32 [] are due");
  EXPECT_EQ(refusal_of([&] { memory_columns(schema, {floats({1, 2}, {1, 2}), floats({1, 2}, {2})}); }),
            "memory_columns: y has 2 rows, x has 1");
  EXPECT_EQ(refusal_of([] { memory_columns(Schema{}, {}); }), "memory_columns: the schema has no fields");
}

}  // namespace
}  // namespace penstock
