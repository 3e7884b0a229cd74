// What the verdict predicts is what a simulated loader does after the change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/report/verdict.h>
#include <penstock/pipeline/source/memory.h>

#include "pipeline/report/simulated_loader.h"

namespace penstock {
namespace {

using test::Simulated;
using test::SimulatedRun;
using ::testing::HasSubstr;
using ::testing::Not;

using Kind = VerdictStep::Kind;

// A window whose length is a multiple of every thread count used, so that rates are exact.
constexpr std::size_t kFrom = 120;
constexpr std::size_t kTo = kFrom + 240;
constexpr double kExact = 1e-9;

double rate_of(const Simulated& pipeline) { return SimulatedRun(pipeline, kTo + 1).rate(kFrom, kTo); }

Verdict judge(const Simulated& pipeline, const MachineLimits& limits, std::size_t cacheable = 0,
              std::uint64_t samples = 0) {
  const SimulatedRun run(pipeline, kTo + 1);
  return verdict(run.report(kTo), limits,
                 {.batch_size = pipeline.batch_size,
                  .source_samples = samples,
                  .cacheable_stages = cacheable,
                  .since = run.report(kFrom)});
}

const VerdictStep* find(const Verdict& verdict, Kind kind, const std::string& stage = {}) {
  const auto at = std::find_if(verdict.steps.begin(), verdict.steps.end(), [&](const VerdictStep& step) {
    return step.kind == kind && (stage.empty() || step.stage == stage);
  });
  return at == verdict.steps.end() ? nullptr : &*at;
}

void expect_exact(const VerdictStep* step, double now, double then) {
  ASSERT_NE(step, nullptr);
  EXPECT_NEAR(step->samples_per_s / then, 1, kExact);
  EXPECT_NEAR(step->gain, then / now - 1, kExact);
}

/// Decoding and normalising on `threads` threads.
Simulated decoding(std::size_t threads) {
  return {.stages = {{"decode", 1'000'000, 150'000}, {"crop", 200'000, 50'000}},
          .read_ns = 30'000,
          .read_bytes = 90'000,
          .threads = threads};
}

MachineLimits machine(std::size_t cores) {
  return {.cores = cores, .limit = "decoding rate", .samples_per_s = 1000, .copy_bytes_per_s = 1e9};
}

TEST(VerdictTest, PredictsOneMoreThreadExactly) {
  for (const std::size_t threads : {1, 2, 3, 5}) {
    const Verdict verdict = judge(decoding(threads), machine(16));
    EXPECT_EQ(verdict.bound, Bound::kThreads);
    EXPECT_EQ(verdict.stage, "decode");
    const double now = rate_of(decoding(threads));
    EXPECT_NEAR(verdict.samples_per_s / now, 1, kExact) << threads;
    expect_exact(find(verdict, Kind::kThread), now, rate_of(decoding(threads + 1)));
  }
}

TEST(VerdictTest, NamesACoreWhereEveryCoreHasAThread) {
  const Verdict verdict = judge(decoding(2), machine(2));
  EXPECT_EQ(find(verdict, Kind::kThread), nullptr);
  expect_exact(find(verdict, Kind::kCore), rate_of(decoding(2)), rate_of(decoding(3)));
  EXPECT_THAT(verdict.text, HasSubstr("; one more core: +50 %"));
}

TEST(VerdictTest, GainOfAThreadEndsAtTheConsumer) {
  Simulated pipeline = decoding(2);
  pipeline.consumer_ns = 4'000'000;  // a batch of 8: 2,000 samples/s, where two threads give 1,667 and three 2,500
  Simulated more = pipeline;
  more.threads = 3;
  EXPECT_NEAR(rate_of(more), 2000, 1e-6);
  expect_exact(find(judge(pipeline, machine(16)), Kind::kThread), rate_of(pipeline), rate_of(more));
}

TEST(VerdictTest, PredictsCachesExactlyWithTheBytesTheyNeed) {
  const Simulated pipeline = decoding(2);
  const Verdict verdict = judge(pipeline, machine(2), 3, 14'000);
  Simulated cached = pipeline;
  cached.read_ns = 0;
  cached.stages = {{"copy", 150'000, 150'000}, {"crop", 200'000, 50'000}};  // 150 kB at 1 GB/s
  const VerdictStep* const decoded = find(verdict, Kind::kCache, "decode");
  expect_exact(decoded, rate_of(pipeline), rate_of(cached));
  EXPECT_EQ(decoded->bytes, 2'100'000'000u);
  cached.stages = {{"copy", 50'000, 50'000}};
  const VerdictStep* const cropped = find(verdict, Kind::kCache, "crop");
  expect_exact(cropped, rate_of(pipeline), rate_of(cached));
  EXPECT_EQ(cropped->bytes, 700'000'000u);
  EXPECT_EQ(verdict.steps.front().stage, "crop") << "the best comes first";
  EXPECT_EQ(find(verdict, Kind::kCache, "read"), nullptr) << "it would be slower, by its copy";
  EXPECT_THAT(verdict.text, HasSubstr("; caching after crop: +2300 %, needs 700 MB"));
}

TEST(VerdictTest, PutsACacheThatDoesNotFitLast) {
  MachineLimits small = machine(16);
  small.memory_bytes = 1'000'000'000;
  const Verdict verdict = judge(decoding(2), small, 2, 14'000);
  ASSERT_GE(verdict.steps.size(), 2u);
  EXPECT_EQ(verdict.steps.front().kind, Kind::kThread);
  EXPECT_EQ(verdict.steps.back().stage, "decode");
  EXPECT_GT(verdict.steps.back().gain, verdict.steps.front().gain);
}

TEST(VerdictTest, PredictsMoreReadsExactly) {
  Simulated pipeline{.stages = {{"parse", 10'000, 100}}, .read_ns = 5'000'000, .read_bytes = 100};
  pipeline.batches_ahead = 4;
  for (const std::size_t reads : {1, 2, 8}) {
    pipeline.reads_in_flight = reads;
    const Verdict verdict = judge(pipeline, machine(2));
    EXPECT_EQ(verdict.bound, Bound::kReading) << reads;
    EXPECT_THAT(verdict.text, HasSubstr("bound by reading"));
    Simulated more = pipeline;
    more.reads_in_flight = 2 * reads;
    const VerdictStep* const step = find(verdict, Kind::kReads);
    expect_exact(step, rate_of(pipeline), rate_of(more));
    EXPECT_EQ(step->to, 2 * reads);
    EXPECT_EQ(find(verdict, Kind::kThread), nullptr) << "another thread gains nothing";
  }
}

TEST(VerdictTest, PredictsMoreBatchesAheadExactly) {
  // All rows of all open batches are read at once, and still the source answers too late.
  Simulated pipeline{.stages = {{"parse", 1'000, 100}}, .read_ns = 5'000'000, .read_bytes = 100};
  pipeline.batches_ahead = 2;
  pipeline.stages.front().ns = 0;
  const Verdict verdict = judge(pipeline, machine(2));
  EXPECT_EQ(verdict.bound, Bound::kReading);
  Simulated more = pipeline;
  more.batches_ahead = 4;
  const VerdictStep* const step = find(verdict, Kind::kPrefetch);
  expect_exact(step, rate_of(pipeline), rate_of(more));
  EXPECT_EQ(step->to, 4u);
  EXPECT_THAT(step->text, HasSubstr("4 batches ahead: +100 %"));
}

TEST(VerdictTest, SaysWhatTheLoaderCouldGiveASlowConsumer) {
  Simulated pipeline = decoding(2);
  pipeline.consumer_ns = 12'000'000;
  const Verdict verdict = judge(pipeline, machine(2), 3, 14'000);
  EXPECT_EQ(verdict.bound, Bound::kConsumer);
  Simulated free = pipeline;
  free.consumer_ns = 0;
  EXPECT_NEAR(verdict.threads_samples_per_s / rate_of(free), 1, kExact);
  ASSERT_EQ(verdict.steps.size(), 1u) << "nothing else helps";
  expect_exact(find(verdict, Kind::kConsumer), rate_of(pipeline), rate_of(free));
  EXPECT_THAT(verdict.text, HasSubstr("consumer-bound: the loader could give 1667 samples/s, 667 samples/s, "));
}

TEST(VerdictTest, SaysTheShareOfTheMeasuredLimit) {
  const Verdict verdict = judge(decoding(2), machine(2));
  EXPECT_NEAR(verdict.share_of_limit, rate_of(decoding(2)) / 2000, kExact);
  EXPECT_EQ(verdict.text,
            "decode-bound: 83 % of the threads' time, 1667 samples/s, 83 % of this machine's decoding rate with 2 "
            "threads; one more core: +50 %");
  // More threads than cores have no more than the cores.
  EXPECT_NEAR(judge(decoding(4), machine(2)).share_of_limit, rate_of(decoding(4)) / 2000, kExact);
  ASSERT_EQ(verdict.stages.size(), 3u);
  EXPECT_NEAR(verdict.stages[1].share, 1.0 / 1.2, kExact);
  EXPECT_NEAR(verdict.stages[1].samples_per_s, 1000, 1e-6);
}

TEST(VerdictTest, WithoutABatchThereIsNothingToJudge) {
  const Verdict verdict = penstock::verdict(LoaderReport{}, machine(2), {});
  EXPECT_EQ(verdict.bound, Bound::kNothing);
  EXPECT_TRUE(verdict.steps.empty());
  EXPECT_EQ(verdict.text, "nothing to judge: no batch was delivered");
}

TEST(VerdictTest, OptionsComeFromThePlan) {
  const std::vector<std::int64_t> numbers{1, 2, 3, 4, 5};
  const auto add = [](std::int64_t x) { return x + 1; };
  const auto random = [](std::int64_t x, Draw& draw) { return x + static_cast<std::int64_t>(draw.below(3)); };
  const Pipeline plain =
      memory_columns(Schema({{"x", DataType::kI64, {}}}), {Tensor::copy_of<std::int64_t>(numbers, {5})});
  const VerdictOptions two = verdict_options(plain.map("x", add).map("x", random).map("x", add).batch(2));
  EXPECT_EQ(two.batch_size, 2u);
  EXPECT_EQ(two.source_samples, 5u);
  EXPECT_EQ(two.cacheable_stages, 2u) << "read, and the map before the random one";
}

TEST(VerdictTest, BytesAreDecimalWithTwoDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(2'100'000'000), "2.1 GB");
  EXPECT_EQ(bytes_text(340e6), "340 MB");
  EXPECT_EQ(bytes_text(999'700), "1.0 MB");
}

}  // namespace
}  // namespace penstock
