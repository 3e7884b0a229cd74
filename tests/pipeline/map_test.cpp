// The three forms of map, with and without draws, and functions with a state of their own.
#include <atomic>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/per_worker.h>
#include <penstock/pipeline/pipeline.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::numbers;
using testing::ElementsAre;

class MapTest : public testing::Test {
 protected:
  Batch only_batch(const Pipeline& pipeline) {
    Loader loader(runtime_, pipeline.batch(3), {.epoch_count = 1, .seed = 5});
    return *loader.next();
  }
  Runtime runtime_{{.threads = 2}};
};

TEST_F(MapTest, AScalarByValueMayChangeItsType) {
  const Batch batch = only_batch(numbers(3).map("x", [](std::int64_t x) { return static_cast<float>(x) / 4; }));
  EXPECT_THAT(batch.view<float>("x").span(), ElementsAre(0.0F, 2.5F, 5.0F));
  EXPECT_EQ(batch.view<float>("x").shape(), Shape({3}));
}

TEST_F(MapTest, AFieldInPlaceReadsTheOldValueWhileItWritesTheNew) {
  const Batch batch =
      only_batch(numbers(3)
                     .map("x", Output{DataType::kI32, {2, 2}},
                          [](View<const std::int64_t> in, View<std::int32_t> out) {
                            for (std::int64_t i = 0; i < 4; ++i) out[i] = static_cast<std::int32_t>(in[0] + i);
                          })
                     .map("x", Output{DataType::kI32, {2, 2}}, [](View<const std::int32_t> in, View<std::int32_t> out) {
                       for (std::int64_t i = 0; i < 4; ++i) out[i] = in[3 - i];
                     }));
  EXPECT_EQ(batch.view<std::int32_t>("x").shape(), Shape({3, 2, 2}));
  EXPECT_THAT(batch.view<std::int32_t>("x").span(), ElementsAre(3, 2, 1, 0, 13, 12, 11, 10, 23, 22, 21, 20));
}

TEST_F(MapTest, AWholeSampleMayAddAndDropFields) {
  const Pipeline pipeline =
      numbers(3)
          .map(
              [](Sample sample) {
                const std::int64_t x = sample["x"].view<std::int64_t>()[0];
                const std::vector<float> pair{static_cast<float>(x), static_cast<float>(sample.origin().index)};
                return Sample({"twice", "pair"},
                              {Tensor::scalar<std::int64_t>(2 * x), Tensor::copy_of<float>(pair, {2})});
              },
              Outputs{{"pair", DataType::kF32, {2}}, {"twice", DataType::kI64, {}}})
          .map("twice", [](std::int64_t x) { return x + 1; });
  EXPECT_EQ(pipeline.schema().to_string(), "pair: f32 [2], twice: i64 []");
  const Batch batch = only_batch(pipeline);
  EXPECT_THAT(batch.view<float>("pair").span(), ElementsAre(0, 0, 10, 1, 20, 2));
  EXPECT_THAT(test::values(batch, "twice"), ElementsAre(1, 21, 41));
}

TEST_F(MapTest, EachFormTakesADraw) {
  const auto run = [&] {
    return only_batch(numbers(3)
                          .map("x", [](std::int64_t, Draw& draw) { return static_cast<std::int64_t>(draw.bits()); })
                          .map("x", Output{DataType::kI64, {2}},
                               [](View<const std::int64_t> in, View<std::int64_t> out, Draw& draw) {
                                 out[0] = in[0];
                                 out[1] = draw.bits();
                               })
                          .map(
                              [](Sample sample, Draw& draw) {
                                const auto in = sample["x"].view<std::int64_t>();
                                const std::vector<std::int64_t> out{in[0], in[1],
                                                                    static_cast<std::int64_t>(draw.bits())};
                                return Sample({"x"}, {Tensor::copy_of<std::int64_t>(out, {3})});
                              },
                              Outputs{{"x", DataType::kI64, {3}}}));
  };
  const Batch a = run();
  const Batch b = run();
  const auto view = a.view<std::int64_t>("x");
  EXPECT_EQ(std::set<std::int64_t>(view.span().begin(), view.span().end()).size(), 9u) << "no two draws are equal";
  EXPECT_THAT(b.view<std::int64_t>("x").span(), testing::ElementsAreArray(view.span()));
}

/// Counts its instances, and tells whether two threads were ever in one.
struct Scratchpad {
  explicit Scratchpad(std::atomic<int>& made) { ++made; }
  Scratchpad(Scratchpad&&) noexcept {}
  std::int64_t operator()(std::int64_t x) {
    if (busy.exchange(true)) shared = true;
    const std::int64_t result = x + 1;
    busy = false;
    return shared ? -1 : result;
  }
  std::atomic<bool> busy{false};
  bool shared = false;
};

TEST_F(MapTest, PerWorkerGivesEachConcurrentCallItsOwnInstance) {
  std::atomic<int> made{0};
  const Runtime runtime({.threads = 4});
  Loader loader(runtime, numbers(2000).map("x", per_worker([&] { return Scratchpad(made); })).batch(50),
                {.epoch_count = 1, .block_size = 1});
  const std::vector<std::int64_t> all = test::flat_epoch(loader);
  ASSERT_EQ(all.size(), 2000u);
  for (std::int64_t i = 0; i < 2000; ++i) ASSERT_EQ(all[i], i * 10 + 1);
  EXPECT_GE(made, 1);
  EXPECT_LE(made, 4);
}

TEST_F(MapTest, PerWorkerWorksWithAllFormsAndSurvivesThrows) {
  const Pipeline pipeline = numbers(3)
                                .map("x", per_worker([] {
                                       return [calls = 0](std::int64_t x, Draw&) mutable {
                                         ++calls;
                                         return x + (calls > 0 ? 1 : 0);
                                       };
                                     }))
                                .map("x", Output{DataType::kI64, {2}}, per_worker([] {
                                       return [](View<const std::int64_t> in, View<std::int64_t> out) {
                                         if (in[0] == 11) throw std::runtime_error("eleven");
                                         out[0] = in[0];
                                         out[1] = -in[0];
                                       };
                                     }))
                                .map(per_worker([] { return [](Sample sample) { return sample; }; }));
  Loader loader(runtime_, pipeline.batch(3), {.epoch_count = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(loader.next()->view<std::int64_t>("x").span(), ElementsAre(1, -1));
    EXPECT_THROW(loader.next(), SampleError);
    EXPECT_THAT(loader.next()->view<std::int64_t>("x").span(), ElementsAre(21, -21));
    EXPECT_FALSE(loader.next());
  }
}

}  // namespace
}  // namespace penstock
