// Stages run by a loader: the same batches for any number of threads, and from the position after any batch.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/sample_generator.h>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

using Batches = std::vector<std::vector<std::int64_t>>;

/// Two epochs from `start` on, and the position after each batch.
Batches two_epochs(const Pipeline& pipeline, std::size_t threads, const Position& start = {},
                   std::vector<Position>* positions = nullptr) {
  const Runtime runtime({.threads = threads, .budget_bytes = std::uint64_t{64} << 20});
  Loader loader(runtime, pipeline,
                {.epoch_count = 2, .max_sample_bytes = 4096, .start = start, .kept_bytes = std::uint64_t{1} << 16});
  Batches all;
  for (std::uint64_t epoch = start.epoch; epoch < 2; ++epoch) {
    while (const std::optional<Batch> batch = loader.next()) {
      all.push_back(values(*batch));
      if (positions) positions->push_back(batch->position());
    }
  }
  return all;
}

void expect_same_everywhere(const Pipeline& pipeline, const Batches& first_epoch = {}) {
  std::vector<Position> positions;
  const Batches all = two_epochs(pipeline, 1, {}, &positions);
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 0; i < first_epoch.size(); ++i) EXPECT_EQ(all.at(i), first_epoch[i]) << "batch " << i;
  for (const std::size_t threads : {2U, 8U}) EXPECT_EQ(two_epochs(pipeline, threads), all) << threads << " threads";
  for (std::size_t i = 0; i < positions.size(); ++i) {
    EXPECT_EQ(two_epochs(pipeline, 2, positions[i]),
              Batches(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end()))
        << "resumed after batch " << i;
  }
}

std::vector<Sample> twice(const Sample& sample) { return {sample, number_sample(number_of(sample) + 1)}; }

SampleGenerator thrice(const Sample& sample) {
  for (std::int64_t i = 0; i < 3; ++i) co_yield number_sample(number_of(sample) + i);
}

TEST(StagesInLoaderTest, Filter) {
  expect_same_everywhere(numbers(10).filter("x", [](std::int64_t x) { return x % 20 == 0; }).batch(2),
                         {{0, 20}, {40, 60}, {80}});
  expect_same_everywhere(numbers(10).filter([](const Sample& sample) { return number_of(sample) != 30; }).batch(4),
                         {{0, 10, 20, 40}, {50, 60, 70, 80}, {90}});
}

TEST(StagesInLoaderTest, TakeWhileAndEnumerate) {
  expect_same_everywhere(
      numbers(10).take_while([](const Sample& sample) { return number_of(sample) < 50; }).enumerate().batch(2),
      {{0, 10}, {20, 30}, {40}});
}

TEST(StagesInLoaderTest, FlatMapBetweenMaps) {
  expect_same_everywhere(numbers(4)
                             .map("x", [](std::int64_t x) { return x * 10; })
                             .flat_map(twice)
                             .map("x", [](std::int64_t x) { return x + 5; })
                             .batch(3),
                         {{5, 6, 105}, {106, 205, 206}, {305, 306}});
  expect_same_everywhere(numbers(30).shuffle().flat_map(thrice).batch(7));
}

TEST(StagesInLoaderTest, Interleave) {
  expect_same_everywhere(numbers(4).interleave(thrice, {.cycle_length = 2}).batch(4),
                         {{0, 10, 1, 11}, {2, 12, 20, 30}, {21, 31, 22, 32}});
}

TEST(StagesInLoaderTest, Scan) {
  Scan scan{.initial = number_sample(0),
            .step =
                [](const Sample& state, const Sample& sample) {
                  const Sample next = number_sample(number_of(state) + number_of(sample));
                  return std::pair(next, next);
                },
            .save = [](const Sample& state) { return std::to_string(number_of(state)); },
            .restore = [](const std::string& text) { return number_sample(std::stoll(text)); }};
  expect_same_everywhere(numbers(5).scan(scan).batch(2), {{0, 10}, {30, 60}, {100}});
}

TEST(StagesInLoaderTest, Generator) {
  const auto counting = [](std::int64_t from) {
    auto at = std::make_shared<std::int64_t>(from);
    return SampleRange(
        [at]() -> std::optional<Sample> {
          if (*at % 10 == 7) return std::nullopt;
          return number_sample((*at)++);
        },
        [at] { return std::to_string(*at); });
  };
  expect_same_everywhere(
      generator(Schema({{"x", DataType::kI64, {}}}),
                [counting](std::uint64_t epoch) { return counting(static_cast<std::int64_t>(epoch) * 10); },
                {.restore = [counting](std::uint64_t, const std::string& text) { return counting(std::stoll(text)); }})
          .map("x", [](std::int64_t x) { return x * 2; })
          .batch(3),
      {{0, 2, 4}, {6, 8, 10}, {12}, {20, 22, 24}});
}

TEST(StagesInLoaderTest, Joins) {
  expect_same_everywhere(zip({numbers(5), named_numbers(7, "y").shuffle()}).batch(2), {{0, 10}, {20, 30}, {40}});
  expect_same_everywhere(concatenate({numbers(3), numbers(2)}).batch(2), {{0, 10}, {20, 0}, {10}});
  for (const auto at_end : {SampleFrom::AtEnd::kStop, SampleFrom::AtEnd::kContinue, SampleFrom::AtEnd::kRepeat}) {
    expect_same_everywhere(
        sample_from({numbers(20), numbers(9).map("x", [](std::int64_t x) { return -x; })}, {2, 1}, {.at_end = at_end})
            .batch(3));
  }
  expect_same_everywhere(zip({concatenate({numbers(4).flat_map(twice), numbers(9)}),
                              named_numbers(30, "y").filter("y", [](std::int64_t y) { return y % 20 == 0; })})
                             .batch(2));
}

TEST(StagesInLoaderTest, OneInputTwiceDrawsDifferently) {
  const Pipeline drawn =
      numbers(6).map("x", [](std::int64_t, Draw& draw) { return static_cast<std::int64_t>(draw.below(1'000'000)); });
  const Batches all = two_epochs(concatenate({drawn, drawn}).batch(6), 2);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_NE(all[0], all[1]);
}

}  // namespace
}  // namespace penstock
