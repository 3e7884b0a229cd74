// Shapes, tensors, schemas, samples, layouts and errors: what they hold and what they refuse.
#include <penstock/pipeline/tensor.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/sample.h>

namespace penstock {
namespace {

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(TensorTest, ShapesCountAndFitAndPrint) {
  const Shape open{3, Shape::kUnknown, 2};
  const Shape known{3, 4, 2};
  EXPECT_FALSE(open.known());
  EXPECT_TRUE(known.known());
  EXPECT_EQ(known.element_count(), 24);
  EXPECT_EQ(Shape{}.element_count(), 1);
  EXPECT_TRUE(open.accepts(known));
  EXPECT_FALSE(known.accepts(open));
  EXPECT_FALSE(open.accepts(Shape{3, 4}));
  EXPECT_EQ(open.to_string(), "[3, ?, 2]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ(message([] { Shape({1, 2, 3, 4, 5, 6, 7}); }), "shape: 7 dimensions, at most 6 are possible");
  EXPECT_EQ(message([] { Shape({-2}); }), "shape: a dimension of -2");
}

TEST(TensorTest, CopiesAreAlignedAndShareTheirBytes) {
  std::vector<std::int32_t> numbers{1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::copy_of<std::int32_t>(numbers, {2, 3});
  const Tensor copy = tensor;  // NOLINT(performance-unnecessary-copy-initialization): the copy is what is tested
  numbers[0] = 99;
  EXPECT_EQ(copy.data(), tensor.data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_THAT(tensor.view<std::int32_t>().span(), testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(tensor.size_bytes(), 24u);
  EXPECT_EQ(Tensor().size_bytes(), 0u);
}

TEST(TensorTest, RefusesTheWrongTypeAndCount) {
  const Tensor tensor = Tensor::scalar<float>(1);
  EXPECT_EQ(message([&] { tensor.view<std::int32_t>(); }), "tensor: it holds f32, not i32");
  const std::vector<float> three{1, 2, 3};
  EXPECT_EQ(message([&] { Tensor::copy_of<float>(three, {4}); }), "tensor: 12 bytes of values, f32 [4] takes 16");
  EXPECT_EQ(message([&] { Tensor::copy_of<float>(three, {Shape::kUnknown}); }),
            "tensor: the shape [?] is not known in full");
}

TEST(TensorTest, SchemasAndSamplesListTheirNames) {
  const Schema schema({{"image", DataType::kU8, {2}}, {"label", DataType::kI64, {}}});
  EXPECT_EQ(schema.index_of("label"), 1u);
  EXPECT_EQ(message([&] { schema.index_of("labels"); }), "there is no field \"labels\"; there are: image, label");
  EXPECT_EQ(message([] { Schema({{"a", DataType::kU8, {}}, {"a", DataType::kU8, {}}}); }),
            "schema: there are two fields \"a\"");
  EXPECT_EQ(message([] { Schema({{"", DataType::kU8, {}}}); }), "schema: field 0 has no name");
  Sample sample({"a"}, {Tensor::scalar<std::int64_t>(1)}, {0, 7});
  sample.set("b", Tensor::scalar<float>(2));
  sample.set("a", Tensor::scalar<float>(3));
  EXPECT_EQ(sample["a"].view<float>()[0], 3);
  EXPECT_EQ(sample.size_bytes(), 8u);
  EXPECT_EQ(sample.origin().index, 7u);
  EXPECT_EQ(message([&] { sample["c"]; }), "there is no field \"c\"; there are: a, b");
  EXPECT_EQ(message([] { Sample({"a", "b"}, {}); }), "sample: 2 names for 0 tensors");
}

TEST(TensorTest, LayoutsAlignEachFieldAndKeepRowsDense) {
  const Schema schema({{"a", DataType::kU8, {3}}, {"b", DataType::kF32, {2, 2}}, {"c", DataType::kI64, {}}});
  const BatchLayout layout = BatchLayout::of(schema, 5);
  EXPECT_EQ(layout.fields[0].offset, 0u);
  EXPECT_EQ(layout.fields[0].row_stride, 3u);
  EXPECT_EQ(layout.fields[1].offset, 64u);
  EXPECT_EQ(layout.fields[1].row_bytes, 16u);
  EXPECT_EQ(layout.fields[2].offset, 192u);
  EXPECT_EQ(layout.size_bytes, 256u);
  EXPECT_EQ(layout.index_of("c"), 2u);
  EXPECT_EQ(message([&] { layout.index_of("d"); }), "there is no field \"d\"; there are: a, b, c");
  EXPECT_EQ(message([&] { BatchLayout::of(schema, 0); }), "a batch of 0 rows");
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(message([&] { BatchLayout::of(Schema({{"a", DataType::kF32, {huge, huge}}}), 1); }),
            "field \"a\" of this batch takes more bytes than can be counted");
}

TEST(TensorTest, LeasesComeBackOnceAndMoveEmpty) {
  int returned = 0;
  std::byte memory[8];
  {
    BatchLease first(memory, 8, [&] { ++returned; });
    BatchLease second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved-from is empty
    EXPECT_EQ(second.data(), memory);
    second = BatchLease(memory, 4, [&] { returned += 10; });
    EXPECT_EQ(returned, 1);
  }
  EXPECT_EQ(returned, 11);
}

TEST(TensorTest, SampleErrorsNestTheirCause) {
  const auto cause = std::make_exception_ptr(std::out_of_range("row 9"));
  const SampleError error(ErrorKind::kUserCode, "map", 41, "train/0041.jpg", "row 9", cause);
  EXPECT_STREQ(error.what(), "map: sample 41, \"train/0041.jpg\": row 9");
  EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  const SampleError bare(ErrorKind::kTooLarge, "read", 1, "", "too large", nullptr);
  EXPECT_STREQ(bare.what(), "read: sample 1: too large");
  EXPECT_EQ(bare.cause(), nullptr);
  EXPECT_THROW(std::rethrow_if_nested(bare), Error) << "and does not end the program";
  const SourceError source(ErrorKind::kBadMagic, "a/b.idx", "it begins with 00 00");
  EXPECT_STREQ(source.what(), "a/b.idx: it begins with 00 00");
  EXPECT_STREQ(to_string(source.kind()), "bad_magic");
}

}  // namespace
}  // namespace penstock
