// The tuner against throughput functions whose best setting is known.
#include <penstock/pipeline/engine/tuner.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

constexpr Knobs kMost{8, 256, 64, 1024};
constexpr std::uint64_t kBatch = 64;

struct Climb {
  Knobs knobs;
  double rate = 0;
  double seconds = 0;
  std::vector<TuningDecision> decisions;
  bool settled = false;
};

/// Delivers batches at the rate that `rate_of` gives for the knobs in force, for `most_seconds`.
Climb simulate(const Knobs& start, const std::function<double(const Knobs&, double)>& rate_of, double most_seconds,
               Autotune options = {.enabled = true}) {
  Tuner tuner(options, start, kMost);
  double seconds = 0;
  for (std::uint64_t batch = 1; seconds < most_seconds; ++batch) {
    seconds += static_cast<double>(kBatch) / rate_of(tuner.knobs(), seconds);
    static_cast<void>(tuner.delivered(batch, batch * kBatch, seconds));
  }
  return {tuner.knobs(), rate_of(tuner.knobs(), seconds), seconds, tuner.decisions(), tuner.settled()};
}

/// Latency-bound: rate grows with reads in flight up to 32, if enough batches are ahead.
double latency_bound(const Knobs& knobs, double) {
  const double reads =
      static_cast<double>(std::min({knobs.reads_in_flight, knobs.batches_ahead * kBatch, std::size_t{32}}));
  return 200 * reads;
}

TEST(TunerTest, FindsTheReadsThatHideALatency) {
  const Climb run = simulate({2, 32, 1, 1}, latency_bound, 30);
  EXPECT_GE(run.rate, 0.97 * 6400);
  EXPECT_TRUE(run.settled);
  EXPECT_GE(run.decisions.size(), 5u);
  EXPECT_EQ(run.decisions.front().knob, "reads_in_flight");
  EXPECT_EQ(run.decisions.front().from, 1u);
  EXPECT_EQ(run.decisions.front().to, 2u);
  EXPECT_EQ(run.decisions.front().reason, "tried: +100 %, kept");
}

TEST(TunerTest, FindsABlockSizeInTheMiddle) {
  const auto rate = [](const Knobs& knobs, double) {
    const double off = std::log2(static_cast<double>(knobs.block_size) / 16.0);
    return 50000 / (1 + 0.2 * off * off);
  };
  EXPECT_EQ(simulate({2, 256, 2, 8}, rate, 30).knobs.block_size, 16u);
  EXPECT_EQ(simulate({2, 1, 2, 8}, rate, 30).knobs.block_size, 16u);
}

TEST(TunerTest, TakesBackWhatDoesNotHelp) {
  const Climb run = simulate({2, 16, 4, 8}, [](const Knobs&, double) { return 10000.0; }, 30);
  EXPECT_EQ(run.knobs, (Knobs{2, 16, 4, 8}));
  EXPECT_TRUE(run.settled);
  EXPECT_EQ(run.decisions.size() % 2, 0u);
  EXPECT_EQ(run.decisions[1].reason, "back: +0 %");
}

TEST(TunerTest, LeavesTheEnginesOwnChoiceAlone) {
  const Climb run = simulate(
      {2, 0, 2, 0}, [](const Knobs& knobs, double) { return 1000.0 * static_cast<double>(knobs.batches_ahead); }, 30);
  EXPECT_EQ(run.knobs.block_size, 0u);
  EXPECT_EQ(run.knobs.reads_in_flight, 0u);
  EXPECT_EQ(run.knobs.batches_ahead, 64u);
}

TEST(TunerTest, BeginsAgainWhenTheWorkBecomesAnother) {
  const auto rate = [](const Knobs& knobs, double seconds) {
    return seconds < 15 ? 20000.0 : 1000.0 * static_cast<double>(std::min<std::size_t>(knobs.reads_in_flight, 16));
  };
  EXPECT_EQ(simulate({2, 16, 2, 2}, rate, 14).knobs.reads_in_flight, 2u);
  EXPECT_EQ(simulate({2, 16, 2, 2}, rate, 60).knobs.reads_in_flight, 16u);
}

TEST(TunerTest, ARefusedKnobIsABoundFromThenOn) {
  Tuner tuner({.enabled = true}, {1, 0, 4, 0}, kMost);
  std::size_t refusals = 0;
  double seconds = 0;
  for (std::uint64_t batch = 1; batch < 2000; ++batch) {
    seconds += 0.05;
    const std::optional<Knobs> next = tuner.delivered(batch, batch * kBatch, seconds);
    if (next && next->batches_ahead > 4) {
      tuner.refused("no room");
      ++refusals;
      EXPECT_EQ(tuner.decisions().back().reason, "refused: no room");
    }
  }
  EXPECT_EQ(refusals, 1u);
  EXPECT_EQ(tuner.knobs().batches_ahead, 4u);
}

TEST(TunerTest, AReplayMakesTheSameChangesAtTheSameBatches) {
  const Climb first = simulate({2, 32, 1, 1}, latency_bound, 10);
  ASSERT_GE(first.decisions.size(), 3u);
  // At another speed: only the batches count.
  const Climb again = simulate({2, 32, 1, 1}, [](const Knobs&, double) { return 3000.0; }, 100,
                               {.enabled = true, .replay = first.decisions});
  ASSERT_EQ(again.decisions.size(), first.decisions.size());
  for (std::size_t i = 0; i < first.decisions.size(); ++i) {
    EXPECT_EQ(again.decisions[i].batch, first.decisions[i].batch);
    EXPECT_EQ(again.decisions[i].knob, first.decisions[i].knob);
    EXPECT_EQ(again.decisions[i].to, first.decisions[i].to);
  }
  EXPECT_EQ(again.knobs, first.knobs);
}

}  // namespace
}  // namespace penstock::engine
