// Sources that lie in memory are run by columns; everything is as it is row by row.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/memory.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::BatchHash;

/// The same source without its columns.
class ByRows final : public Source {
 public:
  explicit ByRows(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  const Schema& schema() const override { return source_->schema(); }
  std::optional<std::uint64_t> size() const override { return source_->size(); }
  std::string describe(std::uint64_t index) const override { return source_->describe(index); }
  void read(std::uint64_t index, Sink& sink, FileReader& files) const override { source_->read(index, sink, files); }
  std::string fingerprint(std::uint64_t index) const override { return source_->fingerprint(index); }

 private:
  std::shared_ptr<const Source> source_;
};

constexpr std::int64_t kCount = 701;

// x: i64, a: u8 [3], b: f32 [].
Pipeline columns() {
  std::vector<std::int64_t> x;
  std::vector<std::uint8_t> a;
  std::vector<float> b;
  for (std::int64_t i = 0; i < kCount; ++i) {
    x.push_back(i * 7 + 1);
    for (std::int64_t j = 0; j < 3; ++j) a.push_back(static_cast<std::uint8_t>(i + 50 * j));
    b.push_back(static_cast<float>(i) / 3);
  }
  return memory_columns(Schema({{"x", DataType::kI64, {}}, {"a", DataType::kU8, {3}}, {"b", DataType::kF32, {}}}),
                        {Tensor::copy_of<std::int64_t>(x, Shape{kCount}),
                         Tensor::copy_of<std::uint8_t>(a, Shape{kCount, 3}), Tensor::copy_of<float>(b, Shape{kCount})});
}

Pipeline rows() { return Pipeline(std::make_shared<ByRows>(columns().plan().source)); }

// Values that change their size on the way, alternately with another field's; and a value of several numbers.
Pipeline mapped(const Pipeline& from) {
  return from.map("x", [](std::int64_t x) { return static_cast<std::int32_t>(x * 3); })
      .map("b", [](float b) { return b + 1; })
      .map("x", [](std::int32_t x) { return static_cast<std::int64_t>(x) << 20; })
      .map("x", [](std::int64_t x) { return static_cast<float>(x >> 19); })
      .map("a", Output{DataType::kI64, {2, 2}},
           [](View<const std::uint8_t> in, View<std::int64_t> out) {
             for (std::int64_t i = 0; i < 4; ++i) out[i] = in[i % 3] + 100 * i;
           })
      .map("x", [](float x) { return static_cast<std::int64_t>(x) - 1; });
}

std::vector<Pipeline> orders(const Pipeline& from) {
  return {from,
          from.shuffle({.seed = 4}),
          from.skip(5).take(600),
          from.shard(1, 3),
          from.take(150).shuffle().repeat(3),
          from.repeat(2).skip(10)};
}

std::uint64_t hash_of(Loader& loader) {
  BatchHash hash;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const std::optional<Batch> batch = loader.next()) {
      hash.add(*batch);
      for (std::size_t row = 0; row < batch->size(); ++row) {
        EXPECT_EQ(batch->describe(row), "memory, sample " + std::to_string(batch->origin(row).index));
      }
    }
  }
  return hash.get();
}

TEST(LoaderColumnTest, GivesWhatRowsGive) {
  const Runtime one({.threads = 1});
  const Runtime many({.threads = 3});
  const std::vector<Pipeline> by_columns = orders(columns());
  const std::vector<Pipeline> by_rows = orders(rows());
  for (std::size_t i = 0; i < by_rows.size(); ++i) {
    for (const bool with_maps : {false, true}) {
      const Pipeline expected = with_maps ? mapped(by_rows[i]) : by_rows[i];
      Loader row_loader(one, expected.batch(290), {.epoch_count = 2, .seed = 8});
      const std::uint64_t hash = hash_of(row_loader);
      const Pipeline pipeline = with_maps ? mapped(by_columns[i]) : by_columns[i];
      for (const Runtime& runtime : {one, many}) {
        for (const std::size_t block_size : {0, 1, 17, 1000}) {
          Loader loader(runtime, pipeline.batch(290), {.epoch_count = 2, .seed = 8, .block_size = block_size});
          EXPECT_EQ(hash_of(loader), hash) << "order " << i << " maps " << with_maps << " blocks of " << block_size;
        }
      }
    }
  }
}

// Fails in the first map at 3, 4 and 299, in the second at 4 (never reached), 10 and 300; counts the calls.
Pipeline failing(const Pipeline& from, std::atomic<int>& first, std::atomic<int>& second) {
  return from
      .map("x",
           [&first](std::int64_t x) {
             ++first;
             const std::int64_t index = (x - 1) / 7;
             if (index == 3 || index == 4 || index == 299) throw std::runtime_error("first");
             return x;
           })
      .map("x", [&second](std::int64_t x) {
        ++second;
        const std::int64_t index = (x - 1) / 7;
        if (index == 4 || index == 10 || index == 300) throw std::runtime_error("second");
        return x;
      });
}

std::vector<std::string> story(Loader& loader) {
  std::vector<std::string> all;
  for (;;) {
    try {
      const std::optional<Batch> batch = loader.next();
      if (!batch) return all;
      BatchHash hash;
      hash.add(*batch);
      std::string text = std::to_string(batch->first_row());
      all.push_back(
          text.append("+").append(std::to_string(batch->size())).append(":").append(std::to_string(hash.get())));
    } catch (const SampleError& error) {
      all.push_back(error.what());
    }
  }
}

TEST(LoaderColumnTest, FailedRowsAreCutOutAsByRowsAndFunctionsAreCalledOnce) {
  const Runtime runtime({.threads = 2});
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  Loader row_loader(runtime, failing(rows(), first, second).batch(300), {.epoch_count = 1});
  const std::vector<std::string> expected = story(row_loader);
  EXPECT_THAT(expected, testing::Contains("map(x): sample 4, \"memory, sample 4\": first"));
  EXPECT_THAT(expected, testing::Contains("map(x): sample 300, \"memory, sample 300\": second"));
  EXPECT_EQ(first, kCount);
  EXPECT_EQ(second, kCount - 3);
  for (const std::size_t block_size : {0, 1, 7, 300}) {
    first = 0;
    second = 0;
    Loader loader(runtime, failing(columns(), first, second).batch(300), {.epoch_count = 1, .block_size = block_size});
    EXPECT_EQ(story(loader), expected) << "blocks of " << block_size;
    EXPECT_EQ(first, kCount);
    EXPECT_EQ(second, kCount - 3);
  }
}

TEST(LoaderColumnTest, ReportsWhatEachStageDid) {
  const Runtime runtime({.threads = 2});
  for (const Pipeline& from : {columns(), rows()}) {
    Loader loader(runtime,
                  from.map("x", [](std::int64_t x) { return static_cast<float>(x); })
                      .map("a", Output{DataType::kF32, {5}},
                           [](View<const std::uint8_t> in, View<float> out) {
                             for (float& value : out.span()) value = in[0];
                           })
                      .batch(100),
                  {.epoch_count = 1});
    while (loader.next()) {
    }
    const LoaderReport report = loader.report();
    ASSERT_EQ(report.stages.size(), 3u);
    for (const StageReport& stage : report.stages) {
      EXPECT_EQ(stage.count, static_cast<std::uint64_t>(kCount)) << stage.name;
      EXPECT_GT(stage.seconds, 0) << stage.name;
      EXPECT_EQ(stage.wait_seconds, 0) << stage.name;
    }
    EXPECT_EQ(report.stages[0].bytes, 15u * kCount);
    EXPECT_EQ(report.stages[1].bytes, 4u * kCount);
    EXPECT_EQ(report.stages[2].bytes, 20u * kCount);
    EXPECT_GT(report.seconds, 0);
    EXPECT_GE(report.ready_share, 0);
    EXPECT_LE(report.ready_share, 1);
    EXPECT_EQ(report.reads_most, 0u) << "nothing is waited for";
  }
}

}  // namespace
}  // namespace penstock
