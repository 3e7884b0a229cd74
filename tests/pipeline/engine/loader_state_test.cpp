// Positions as text: read back, moved to other ranks, and refused where they belong to another plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/runtime.h>

#include "../../support/pipeline_support.h"

namespace penstock {
namespace {

using test::numbers;
using test::values;

using Values = std::vector<std::int64_t>;

template <class F>
std::string refusal(F function) {
  try {
    static_cast<void>(function());
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

void append(Values& all, const Batch& batch) {
  const Values more = values(batch);
  all.insert(all.end(), more.begin(), more.end());
}

/// What is left of the epoch that `loader` stands in.
Values rest(Loader& loader) {
  Values all;
  while (const auto batch = loader.next()) append(all, *batch);
  return all;
}

const LoaderOptions kSmall{.epoch_count = 2, .max_sample_bytes = 1 << 16, .kept_bytes = 1 << 16};

LoaderOptions from(const Position& start) {
  LoaderOptions options = kSmall;
  options.start = start;
  return options;
}

TEST(LoaderStateTest, TextRoundTripsAndRefusesAnothersText) {
  const Runtime runtime({.threads = 1});
  const Pipeline pipeline = numbers(10).batch(4);
  Loader loader(runtime, pipeline, {});
  const std::string fresh = loader.state();
  EXPECT_EQ(fresh.substr(0, 28), R"({"penstock_state":2,"plan":")");
  EXPECT_EQ(fresh.substr(44), R"(","epoch":0,"slot":0,"size":10})");
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(read_state(pipeline, loader.state()), (Position{0, 4}));
  EXPECT_EQ(read_state(pipeline, loader.state({7, 8})), (Position{7, 8}));
  EXPECT_EQ(read_state(numbers(10).batch(3).prefetch(2), loader.state()), (Position{0, 4})) << "another batch size";

  const auto message = [&](const std::string& text) { return refusal([&] { return read_state(pipeline, text); }); };
  EXPECT_EQ(message("{"), "state: this is no JSON object");
  EXPECT_EQ(message("[]"), "state: this is no JSON object");
  EXPECT_EQ(message("{}"), "state: \"penstock_state\" is missing or not a whole number");
  EXPECT_EQ(message(R"({"penstock_state":1})"), "state: version 1, only version 2 is read");
  EXPECT_EQ(message(R"({"penstock_state":2,"epoch":0,"slot":-1,"size":10})"),
            "state: \"slot\" is missing or not a whole number");
  EXPECT_EQ(message(R"({"penstock_state":2,"epoch":0,"slot":11,"size":10})"), "state: slot 11 of 10");
  EXPECT_EQ(message(R"({"penstock_state":2,"epoch":0,"slot":1,"size":10})"),
            "state: \"plan\" is missing or not a text");
  EXPECT_EQ(message(R"({"penstock_state":2,"epoch":0,"slot":1,"size":10,"numbers":[-1],"texts":[]})"),
            "state: \"numbers\" has one that is not a whole number");
  EXPECT_EQ(message(R"({"penstock_state":2,"epoch":0,"slot":1,"size":10,"numbers":[],"texts":["0g"]})"),
            "state: \"texts\" has one that is not hexadecimal");
  EXPECT_EQ(refusal([&] { return read_state(numbers(11).batch(4), fresh); }),
            "state: it belongs to a pipeline of 10 samples an epoch, this one has 11");
  const std::string other = "state: it belongs to a pipeline with other stages or other parameters than this one";
  EXPECT_EQ(refusal([&] { return read_state(numbers(10).shuffle().batch(4), fresh); }), other);
  EXPECT_EQ(refusal([&] { return read_state(numbers(12).skip(2).batch(4), fresh); }), other);
}

TEST(LoaderStateTest, OtherRanksGoOnAtTheSlotOfTheWholeOrder) {
  constexpr std::uint64_t kCount = 53;
  const Runtime runtime({.threads = 2});
  const auto sharded = [](std::uint64_t rank, std::uint64_t world) {
    return numbers(kCount)
        .shuffle({.seed = 9})
        .shard(rank, world)
        .map("x", [](std::int64_t x) { return x + 1; })
        .batch(2);
  };
  Loader whole(runtime, sharded(0, 1), kSmall);
  const Values order = rest(whole);
  ASSERT_EQ(order.size(), kCount);
  for (std::uint64_t world = 1; world <= 4; ++world) {
    for (std::uint64_t batches = 0; batches <= 5; ++batches) {
      const std::uint64_t rank = batches % world;
      Loader loader(runtime, sharded(rank, world), kSmall);
      Values seen;
      for (std::uint64_t i = 0; i < batches; ++i) append(seen, *loader.next());
      const std::string state = loader.state();
      EXPECT_EQ(read_state(sharded(rank, world), state), loader.position());
      const std::uint64_t begin = 2 * batches * world;
      for (std::uint64_t others = 1; others <= 4; ++others) {
        // Of each rank exactly the slots p >= begin with p mod `others` = rank, in order.
        for (std::uint64_t other = 0; other < others; ++other) {
          Loader resumed(runtime, sharded(other, others), from(read_state(sharded(other, others), state)));
          Values expected;
          for (std::uint64_t p = begin; p < kCount; ++p) {
            if (p % others == other) expected.push_back(order[p]);
          }
          EXPECT_EQ(rest(resumed), expected)
              << world << " ranks, " << batches << " batches, then rank " << other << " of " << others;
        }
      }
    }
  }
}

TEST(LoaderStateTest, ShardsThatAreNotLastBelongToThePlan) {
  const Runtime runtime({.threads = 1});
  const auto repeated = [](std::uint64_t rank) { return numbers(12).shard(rank, 2).repeat(2).batch(3); };
  Loader loader(runtime, repeated(0), kSmall);
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(read_state(repeated(0), loader.state()), (Position{0, 3}));
  EXPECT_EQ(refusal([&] { return read_state(repeated(1), loader.state()); }),
            "state: it belongs to a pipeline with other stages or other parameters than this one");
}

TEST(LoaderStateTest, StreamsGoOnFromEveryBatch) {
  const Runtime runtime({.threads = 2, .budget_bytes = std::uint64_t{16} << 20});
  const Pipeline pipeline =
      numbers(60)
          .shuffle({.seed = 4})
          .filter("x", [](std::int64_t x) { return x % 30 != 0; })
          .enumerate("n")
          .shuffle({.seed = 2, .buffer = 7})
          .map("x", [](std::int64_t x, Draw& draw) { return x * 100 + static_cast<std::int64_t>(draw.below(100)); })
          .batch(4);
  Loader loader(runtime, pipeline, kSmall);
  std::vector<std::string> states{loader.state()};
  std::vector<Values> batches;
  while (const auto batch = loader.next()) {
    batches.push_back(values(*batch));
    states.push_back(loader.state());
  }
  ASSERT_EQ(batches.size(), 10U);
  for (std::size_t i = 0; i + 1 < states.size(); ++i) {
    EXPECT_LE(states[i].size(), 4096U);
    Loader resumed(runtime, pipeline, from(read_state(pipeline, states[i])));
    Values expected;
    for (std::size_t k = i; k < batches.size(); ++k)
      expected.insert(expected.end(), batches[k].begin(), batches[k].end());
    EXPECT_EQ(rest(resumed), expected) << "after batch " << i;
  }
  EXPECT_EQ(refusal([&] {
              return read_state(numbers(60).filter("x", [](std::int64_t) { return true; }).batch(4), states[2]);
            }),
            "state: it belongs to a pipeline with other stages or other parameters than this one");
}

TEST(LoaderStateTest, NamesTheStageThatCannotBeSaved) {
  const Runtime runtime({.threads = 1});
  const Pipeline pipeline = numbers(9).filter("x", [](std::int64_t x) { return x > 10; }).batch(2);
  Loader loader(runtime, pipeline, kSmall);
  Cursor cursor;
  cursor.unsaved_stage = "scan";
  EXPECT_EQ(refusal([&] { return loader.state({0, 2, std::make_shared<const Cursor>(cursor)}); }),
            "state: \"scan\" has a state that only its user can save; give it a save and a restore function");
  cursor.unsaved_stage.clear();
  cursor.numbers = {1, ~std::uint64_t{0}};
  cursor.texts = {std::string("\0\xFF\"a", 4), ""};
  const Position position{3, 2, std::make_shared<const Cursor>(cursor)};
  EXPECT_EQ(read_state(pipeline, loader.state(position)), position) << "any bytes, any numbers";
}

}  // namespace
}  // namespace penstock
