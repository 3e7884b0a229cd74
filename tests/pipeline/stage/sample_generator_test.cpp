// SampleGenerator: a coroutine as a range of samples.
#include <gtest/gtest.h>

#include <memory>
#include <ranges>
#include <stdexcept>
#include <type_traits>

#include <penstock/pipeline/sample_generator.h>
#include <penstock/pipeline/sample_range.h>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

static_assert(std::ranges::input_range<SampleGenerator>);
static_assert(std::is_same_v<std::ranges::range_value_t<SampleGenerator>, Sample>);
static_assert(std::is_nothrow_move_constructible_v<SampleGenerator> && !std::is_copy_constructible_v<SampleGenerator>);

SampleGenerator count(std::int64_t from, std::int64_t to) {
  for (std::int64_t i = from; i < to; ++i) co_yield number_sample(i);
}

/// Lives in a coroutine; tells when it goes.
struct Guest {
  explicit Guest(int& gone) : gone_(gone) {}
  ~Guest() { ++gone_; }
  int& gone_;
};

SampleGenerator with_guest(int& gone) {
  const Guest guest(gone);
  co_yield number_sample(1);
  co_yield number_sample(2);
}

SampleGenerator throwing(int after) {
  for (int i = 0; i < after; ++i) co_yield number_sample(i);
  throw std::runtime_error("no more");
}

std::vector<std::int64_t> taken(SampleRange range) {
  std::vector<std::int64_t> all;
  while (const std::optional<Sample> sample = range.next()) all.push_back(number_of(*sample));
  return all;
}

TEST(SampleGeneratorTest, GivesWhatIsYieldedInOrder) {
  std::vector<std::int64_t> all;
  for (const Sample& sample : count(3, 6)) all.push_back(number_of(sample));
  EXPECT_EQ(all, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(taken(SampleRange::of(count(3, 6))), all);
  EXPECT_EQ(taken(SampleRange::of(count(0, 1))), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(taken(SampleRange::of(count(0, 0))).empty());
}

TEST(SampleGeneratorTest, RunsNoFurtherThanItIsAsked) {
  int steps = 0;
  const auto stepping = [](int& count) -> SampleGenerator {
    for (int i = 0; i < 10; ++i) {
      ++count;
      co_yield number_sample(i);
    }
  };
  SampleRange range = SampleRange::of(stepping(steps));
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(number_of(*range.next()), 0);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(number_of(*range.next()), 1);
  EXPECT_EQ(steps, 2);
}

TEST(SampleGeneratorTest, StaysAtItsEnd) {
  SampleRange range = SampleRange::of(count(0, 1));
  EXPECT_TRUE(range.next().has_value());
  EXPECT_FALSE(range.next().has_value());
  EXPECT_FALSE(range.next().has_value());
}

TEST(SampleGeneratorTest, DestroyedEarlyItDestroysWhatItHolds) {
  int gone = 0;
  {
    const SampleGenerator never_begun = with_guest(gone);
  }
  EXPECT_EQ(gone, 0) << "it had not begun, so there was no guest";
  {
    SampleGenerator begun = with_guest(gone);
    EXPECT_EQ(number_of(*begun.begin()), 1);
  }
  EXPECT_EQ(gone, 1);
}

TEST(SampleGeneratorTest, MovesTakeTheCoroutineAlong) {
  int gone = 0;
  SampleGenerator first = with_guest(gone);
  SampleGenerator second = std::move(first);
  auto at = second.begin();
  EXPECT_EQ(number_of(*at), 1);
  SampleGenerator third = count(8, 9);
  third = std::move(second);
  ++at;
  EXPECT_EQ(number_of(*at), 2);
  ++at;
  EXPECT_TRUE(at == third.end());
  EXPECT_EQ(gone, 1);
}

TEST(SampleGeneratorTest, WhatItThrowsComesOutAndEndsIt) {
  SampleGenerator at_once = throwing(0);
  EXPECT_THROW(at_once.begin(), std::runtime_error);
  SampleRange range = SampleRange::of(throwing(1));
  EXPECT_TRUE(range.next().has_value());
  try {
    static_cast<void>(range.next());
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no more");
  }
  EXPECT_FALSE(range.next().has_value());
}

TEST(SampleGeneratorTest, MayReferToTheParentInFlatMap) {
  // The parameter is a reference into the parent's element.
  const Pipeline pipeline = numbers(9).flat_map([](const Sample& parent) -> SampleGenerator {
    for (std::int64_t i = 0; i < number_of(parent); ++i) co_yield number_sample(10 * number_of(parent) + i);
  });
  EXPECT_EQ(shown(last_stage(pipeline, list("0123"))), "10 20 21 30 31 32");
}

TEST(SampleGeneratorTest, MayReferToTheParentsInInterleave) {
  const Pipeline pipeline = numbers(9).interleave(
      [](const Sample& parent) -> SampleGenerator {
        for (std::int64_t i = 0; i < number_of(parent); ++i) co_yield number_sample(10 * number_of(parent) + i);
      },
      {.cycle_length = 2});
  EXPECT_EQ(shown(last_stage(pipeline, list("0123"))), "10 20 21 30 31 32");
}

TEST(SampleGeneratorTest, MakesTheSamplesOfAGenerator) {
  const Pipeline pipeline = generator(Schema({{"x", DataType::kI64, {}}}),
                                      [](std::uint64_t epoch) { return count(static_cast<std::int64_t>(epoch), 4); });
  EXPECT_EQ(shown(first_stage(pipeline, {}), {2, 0, false}), "2 3");
}

}  // namespace
}  // namespace penstock
