// A row says where it came from, and can be made again bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/provenance.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSeed = 99;

std::int64_t value_of(const Sample& sample) { return sample["x"].view<std::int64_t>()[0]; }

Pipeline random_numbers() {
  return Pipeline(std::make_shared<test::NumberSource>(23))
      .shuffle()
      .repeat(2)
      .map("x", [](std::int64_t x, Draw& draw) { return x + static_cast<std::int64_t>(draw.below(5)); })
      .map("x", [](std::int64_t x) { return x * 1000; })
      .map("x", [](std::int64_t x, Draw& draw) { return draw.chance(0.5) ? x + draw.bits() % 1000 : x; })
      .batch(4);
}

TEST(ProvenanceTest, EveryRowOfEveryBatchIsMadeAgainExactly) {
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = random_numbers();
  Loader loader(runtime, pipeline, {.epoch_count = 2, .seed = kSeed});
  std::uint64_t rows = 0;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    while (const std::optional<Batch> batch = loader.next()) {
      for (std::size_t row = 0; row < batch->size(); ++row) {
        const RebuiltRow rebuilt = rebuild(runtime, pipeline, kSeed, epoch, batch->index(), row);
        ASSERT_TRUE(rebuilt.sample);
        EXPECT_EQ(value_of(*rebuilt.sample), batch->view<std::int64_t>("x")[static_cast<std::int64_t>(row)]);
        EXPECT_EQ(rebuilt.provenance.origins, batch->origins(row));
        EXPECT_EQ(rebuilt.provenance.sources, std::vector{batch->describe(row)});
        EXPECT_EQ(rebuilt.provenance.slot, batch->index() * 4 + row);
        ++rows;
      }
    }
  }
  EXPECT_EQ(rows, 2u * 46u);
}

TEST(ProvenanceTest, NamesTheWordsThatEachRandomMapDrew) {
  const Runtime runtime({.threads = 1});
  const RebuiltRow rebuilt = rebuild(runtime, random_numbers(), kSeed, 0, 2, 1);
  ASSERT_EQ(rebuilt.draws.size(), 2u);
  EXPECT_EQ(rebuilt.draws[0].stage, "map(x)");
  EXPECT_EQ(rebuilt.draws[0].number, 0u);
  EXPECT_EQ(rebuilt.draws[1].number, 1u);
  ASSERT_GE(rebuilt.draws[0].words.size(), 1u);
  ASSERT_GE(rebuilt.draws[1].words.size(), 2u) << "chance takes two";
  // The words are those that give the value.
  Draw again(kSeed, 0, rebuilt.provenance.lineage, 0);
  const auto index = static_cast<std::int64_t>(rebuilt.provenance.origins[0].index);
  std::int64_t value = (index * 10 + static_cast<std::int64_t>(again.below(5))) * 1000;
  EXPECT_EQ(again.used(), rebuilt.draws[0].words.size());
  Draw second(kSeed, 0, rebuilt.provenance.lineage, 1);
  if (second.chance(0.5)) value += second.bits() % 1000;
  EXPECT_EQ(second.used(), rebuilt.draws[1].words.size());
  EXPECT_EQ(value_of(*rebuilt.sample), value);
  EXPECT_THAT(rebuilt.text, HasSubstr("epoch 0, batch 2, row 1, slot 9\n"));
  EXPECT_THAT(rebuilt.text, HasSubstr("number " + std::to_string(index) + "\n"));
  EXPECT_THAT(rebuilt.text, HasSubstr("  map(x) drew "));
  EXPECT_THAT(rebuilt.text, HasSubstr("  x: i64 [], xxh3 "));
}

TEST(ProvenanceTest, CountsTheWordsUsed) {
  Draw draw(1, 2, 3, 4);
  EXPECT_EQ(draw.used(), 0u);
  for (std::uint64_t i = 1; i <= 9; ++i) {
    draw.bits();
    EXPECT_EQ(draw.used(), i);
  }
  draw.uniform();
  EXPECT_EQ(draw.used(), 11u);
}

TEST(ProvenanceTest, ArithmeticReadsNothing) {
  const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>(100, 3));
  const Pipeline pipeline = Pipeline(source)
                                .shuffle({.seed = 5})
                                .map("bytes", Output{DataType::kU8, {1}},
                                     [](View<const std::uint8_t> in, View<std::uint8_t> out) { out[0] = in[2]; })
                                .batch(8, LastBatch::kDrop);
  EXPECT_EQ(provenance(pipeline, 0, 7, 11, 3).slot, 91u);
  EXPECT_EQ(source->reads.load(), 0u);
  const Runtime runtime({.threads = 1});
  const RebuiltRow rebuilt = rebuild(runtime, pipeline, 0, 7, 11, 3);
  EXPECT_EQ(source->reads.load(), 1u) << "the one sample";
  EXPECT_EQ((*rebuilt.sample)["bytes"].view<std::uint8_t>()[0], rebuilt.provenance.origins[0].index + 2);
}

TEST(ProvenanceTest, RefusesRowsThatNoBatchHas) {
  const Pipeline pipeline = Pipeline(std::make_shared<test::NumberSource>(10)).batch(4);
  const auto refusal = [&](const Pipeline& of, std::uint64_t batch, std::uint64_t row) -> std::string {
    try {
      provenance(of, 0, 0, batch, row);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(refusal(pipeline, 2, 1), "");
  EXPECT_EQ(refusal(pipeline, 2, 2), "provenance: batch 2, row 2: an epoch has 10 rows in batches of 4");
  EXPECT_EQ(refusal(pipeline, 0, 4), "provenance: batch 0, row 4: an epoch has 10 rows in batches of 4");
  EXPECT_EQ(refusal(pipeline, ~std::uint64_t{0} / 4, 0),
            "provenance: batch 4611686018427387903, row 0: an epoch has 10 rows in batches of 4");
  const Pipeline dropped = Pipeline(std::make_shared<test::NumberSource>(10)).batch(4, LastBatch::kDrop);
  EXPECT_EQ(refusal(dropped, 2, 0), "provenance: batch 2, row 0: an epoch has 8 rows in batches of 4");
}

Pipeline failing(OnError action) {
  return Pipeline(std::make_shared<test::NumberSource>(12))
      .map("x",
           [](std::int64_t x, Draw& draw) {
             if (x == 50) throw std::runtime_error("fifty");
             return x + static_cast<std::int64_t>(draw.below(7));
           })
      .batch(4)
      .on_error({.action = action});
}

TEST(ProvenanceTest, SaysWhyARowIsMissing) {
  const Runtime runtime({.threads = 1});
  const RebuiltRow rebuilt = rebuild(runtime, failing(OnError::kFail), kSeed, 0, 1, 1);
  EXPECT_FALSE(rebuilt.sample);
  ASSERT_TRUE(rebuilt.error);
  try {
    std::rethrow_exception(rebuilt.error);
  } catch (const SampleError& error) {
    EXPECT_EQ(error.index(), 5u);
    EXPECT_EQ(error.stage(), "map(x)");
    EXPECT_EQ(error.source(), "number 5");
  }
  EXPECT_THAT(rebuilt.text, HasSubstr("failed: map(x): sample 5, \"number 5\": "));
  EXPECT_THAT(rebuilt.text, HasSubstr("fifty\n  not delivered: next() throws this in its place\n"));
}

TEST(ProvenanceTest, NamesTheSampleThatTookThePlace) {
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = failing(OnError::kReplace);
  Loader loader(runtime, pipeline, {.epoch_count = 1, .seed = kSeed});
  std::optional<Batch> batch;
  do {
    batch = loader.next();
  } while (batch && batch->index() != 1);
  ASSERT_TRUE(batch);
  const RebuiltRow rebuilt = rebuild(runtime, pipeline, kSeed, 0, 1, 1);
  ASSERT_TRUE(rebuilt.replacement);
  EXPECT_EQ(*rebuilt.replacement, batch->origin(1));
  ASSERT_TRUE(rebuilt.sample);
  EXPECT_EQ(value_of(*rebuilt.sample), batch->view<std::int64_t>("x")[1]);
  EXPECT_EQ(rebuilt.provenance.origins[0].index, 5u);
  EXPECT_THAT(rebuilt.text,
              HasSubstr("replaced by sample " + std::to_string(rebuilt.replacement->index) + ": number "));
}

TEST(ProvenanceTest, RunsAPlanThatIsNotFlatUpToTheRow) {
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline =
      Pipeline(std::make_shared<test::NumberSource>(40))
          .shuffle({.seed = 3})
          .filter("x", [](std::int64_t x) { return x % 20 == 0; })
          .map("x", [](std::int64_t x, Draw& draw) { return x + static_cast<std::int64_t>(draw.below(9)); })
          .batch(4);
  EXPECT_THROW(provenance(pipeline, kSeed, 1, 2, 3), InvalidArgument);
  Loader loader(runtime, pipeline, {.epoch_count = 2, .seed = kSeed});
  while (loader.next()) {
  }
  std::uint64_t rows = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    for (std::size_t row = 0; row < batch->size(); ++row) {
      const RebuiltRow rebuilt = rebuild(runtime, pipeline, kSeed, 1, batch->index(), row);
      ASSERT_TRUE(rebuilt.sample);
      EXPECT_EQ(value_of(*rebuilt.sample), batch->view<std::int64_t>("x")[static_cast<std::int64_t>(row)]);
      EXPECT_EQ(rebuilt.provenance.origins, batch->origins(row));
      ++rows;
    }
  }
  EXPECT_EQ(rows, 20u);
  EXPECT_THROW(rebuild(runtime, pipeline, kSeed, 1, 5, 0), InvalidArgument);
}

}  // namespace
}  // namespace penstock
