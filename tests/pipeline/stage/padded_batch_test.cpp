// padded_batch: shapes, the values of padding, and what is too large.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <penstock/pipeline/stage/padding.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator padded(std::size_t size, const PaddedBatch& options, ListOperator::Items items) {
  return last_stage(list_pipeline().padded_batch(size, options), std::move(items));
}

TEST(PaddedBatchTest, PadsToTheLargestOfTheBatch) {
  const auto got = run(padded(2, {}, lists({1, 3, 2, 2, 1})));
  EXPECT_EQ(shown(got), "[1 0 0 3 3 3] [2 2 2 2] [1]");
  EXPECT_EQ(got[0].sample["x"].shape(), (Shape{2, 3}));
  EXPECT_EQ(got[1].sample["x"].shape(), (Shape{2, 2}));
  EXPECT_EQ(shown(padded(2, {.padding = {{"x", -7}}}, lists({0, 2}))), "[-7 -7 2 2]");
  EXPECT_EQ(shown(padded(2, {}, lists({0, 0}))), "[]");
}

TEST(PaddedBatchTest, EndsAsItIsTold) {
  EXPECT_EQ(shown(padded(2, {.last = LastBatch::kDrop}, lists({1, 2, 3}))), "[1 0 2 2]");
  // Rows that are none are zero, whatever the padding is.
  const auto got = run(padded(3, {.last = LastBatch::kPad, .padding = {{"x", 9}}}, lists({1, 2})));
  EXPECT_EQ(shown(got), "[1 9 2 2 0 0]");
  EXPECT_EQ(got[0].sample["x"].shape(), (Shape{3, 2}));
  EXPECT_EQ(got[0].row_origins.size(), 2u);
}

TEST(PaddedBatchTest, PadsToAGivenShape) {
  const PaddedBatch four{.shapes = {{"x", {4}}}};
  const auto got = run(padded(2, four, lists({1, 4, -1, 5, 2})));
  EXPECT_EQ(shown(got), "[1 0 0 0 4 4 4 4] ! ! [2 2 0 0]");
  EXPECT_EQ(error_text(got[2]), "padded_batch: field \"x\" is [5], larger than what it is padded to, [4]");
  EXPECT_EQ(got[2].origins, (std::vector<Origin>{{0, 3}}));
  EXPECT_EQ(shown(skipping(padded(2, four, lists({1, 5, 4})))), "~ [1 0 0 0 4 4 4 4]");
  EXPECT_EQ(list_pipeline().padded_batch(2, four).schema().to_string(), "x: i64 [4]");
  EXPECT_EQ(list_pipeline().padded_batch(2).schema().to_string(), "x: i64 [?]");
}

/// {"x": u8 [rows, columns, 2], all `value`} of every shape.
engine::Element block(std::int64_t rows, std::int64_t columns, std::uint8_t value) {
  engine::Element element = number_element(0, 0);
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * columns * 2), value);
  element.sample = Sample({"x"}, {Tensor::copy_of<std::uint8_t>(bytes, {rows, columns, 2})});
  return element;
}

TEST(PaddedBatchTest, PadsEveryDimension) {
  class Blocks final : public Source {
   public:
    const Schema& schema() const override { return schema_; }
    std::optional<std::uint64_t> size() const override { return std::nullopt; }
    std::string describe(std::uint64_t) const override { return ""; }
    void read(std::uint64_t, Sink& sink, FileReader&) const override { sink.fail(nullptr); }
    std::string fingerprint(std::uint64_t) const override { return ""; }

   private:
    Schema schema_{{{"x", DataType::kU8, {Shape::kUnknown, Shape::kUnknown, 2}}}};
  };
  std::vector<engine::Element> all;
  all.push_back(block(1, 2, 5));
  all.push_back(block(2, 1, 6));
  const Pipeline pipeline = Pipeline(std::make_shared<Blocks>()).padded_batch(2, {.padding = {{"x", 1}}});
  const auto got = run(last_stage(pipeline, ListOperator::items(std::move(all))));
  ASSERT_EQ(got.size(), 1u);
  const auto view = got[0].sample["x"].view<std::uint8_t>();
  EXPECT_EQ(view.shape(), (Shape{2, 2, 2, 2}));
  const std::vector<int> expected{5, 5, 5, 5, 1, 1, 1, 1, 6, 6, 1, 1, 6, 6, 1, 1};
  EXPECT_EQ(std::vector<int>(view.span().begin(), view.span().end()), expected);
}

std::uint64_t bits(DataType type, double value) {
  std::uint64_t all = 0;
  const auto bytes = stage::element_of(type, value);
  std::memcpy(&all, bytes.data(), byte_size(type));
  return all;
}

TEST(PaddedBatchTest, PaddingOfEveryType) {
  EXPECT_EQ(bits(DataType::kU8, 255), 0xFFu);
  EXPECT_EQ(bits(DataType::kI32, -2), 0xFFFFFFFEu);
  EXPECT_EQ(bits(DataType::kI64, -1), ~std::uint64_t{0});
  EXPECT_EQ(bits(DataType::kF32, 1.5), 0x3FC00000u);
  EXPECT_EQ(bits(DataType::kF16, 1.0), 0x3C00u);
  EXPECT_EQ(bits(DataType::kF16, -2.0), 0xC000u);
  EXPECT_EQ(bits(DataType::kF16, 65504), 0x7BFFu);
  EXPECT_EQ(bits(DataType::kF16, std::ldexp(1.0, -24)), 1u);
  EXPECT_EQ(bits(DataType::kF16, std::ldexp(1.0, -14)), 0x0400u);
  EXPECT_EQ(bits(DataType::kF16, std::ldexp(1.0, -25)), 0u);  // a tie, to even
  EXPECT_EQ(bits(DataType::kF16, 0.1), 0x2E66u);
  EXPECT_EQ(bits(DataType::kF16, -std::numeric_limits<double>::infinity()), 0xFC00u);
  EXPECT_EQ(bits(DataType::kF16, std::nan("")), 0x7E00u);
  EXPECT_EQ(bits(DataType::kBF16, 1.0), 0x3F80u);
  EXPECT_EQ(bits(DataType::kBF16, 0.1), 0x3DCDu);
  EXPECT_EQ(bits(DataType::kBF16, -0.0), 0x8000u);
  EXPECT_EQ(bits(DataType::kBF16, std::numeric_limits<double>::infinity()), 0x7F80u);
}

TEST(PaddedBatchTest, RefusesWhatCannotBePadded) {
  const auto build = [](const PaddedBatch& options, std::size_t size = 2) {
    return refusal([&] { static_cast<void>(list_pipeline().padded_batch(size, options)); });
  };
  EXPECT_EQ(build({}, 0), "padded_batch: a size of 0; at least 1 is needed");
  EXPECT_EQ(build({.padding = {{"y", 1}}}), "padded_batch: there is no field \"y\"; there are: x");
  EXPECT_EQ(build({.shapes = {{"y", {1}}}}), "padded_batch: there is no field \"y\"; there are: x");
  EXPECT_EQ(build({.padding = {{"x", 0.5}}}),
            "padded_batch: padding 0.5 for field \"x\", which is i64: it is no whole number in the type's range");
  EXPECT_EQ(build({.padding = {{"x", 1e19}}}),
            "padded_batch: padding 10000000000000000000 for field \"x\", which is i64: it is no whole number in the "
            "type's range");
  EXPECT_EQ(build({.shapes = {{"x", {2, 2}}}}), "padded_batch: field \"x\" is [?] and cannot be padded to [2, 2]");
  EXPECT_EQ(build({.last = LastBatch::kRefuse}),
            "padded_batch: 7 samples an epoch do not divide into batches of 2, 1 would be left; keep or drop them "
            "(LastBatch::kKeep, LastBatch::kDrop)");
  EXPECT_THROW(static_cast<void>(stage::element_of(DataType::kF16, 65520)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(stage::element_of(DataType::kBF16, 3.4e38 * 1.01)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(stage::element_of(DataType::kF32, 1e39)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(stage::element_of(DataType::kU8, 256)), InvalidArgument);
  const Pipeline fixed = numbers(3).map([](Sample sample) { return sample; }, Outputs{{"x", DataType::kU8, {5}}});
  EXPECT_EQ(refusal([&] { static_cast<void>(fixed.padded_batch(1, {.shapes = {{"x", {4}}}})); }),
            "padded_batch: field \"x\" is [5] and cannot be padded to [4]");
}

TEST(PaddedBatchTest, WaitsForRoom) { expect_waits_for_room(padded(2, {}, lists({1, 2, 2, 1})), 32); }

TEST(PaddedBatchTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    expect_lawful(last_stage(numbers(1).padded_batch(3), items));
    expect_lawful(last_stage(numbers(1).padded_batch(3, {.last = LastBatch::kDrop}), items));
  }
  const PaddedBatch two{.last = LastBatch::kPad, .padding = {}, .shapes = {{"x", {2}}}};
  const auto items = lists({1, 3, 2, -1, 3, 3, 0, 1, 2, 3});
  expect_lawful(padded(3, two, items));
  expect_lawful(skipping(padded(3, two, items)));
}

}  // namespace
}  // namespace penstock
