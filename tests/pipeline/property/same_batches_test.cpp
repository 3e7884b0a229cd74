// Law 1 for plans drawn at random: the stream of batches, errors and ends is the same for every thread count, block
// size, tuning and resume point. A failing plan prints its seed and its stages.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/loader.h>

#include "pipeline/property/random_plan.h"

namespace penstock {
namespace {

using test::kStages;
using test::RandomPlan;

constexpr std::uint64_t kEpochs = 2;

/// What a consumer saw: one line a result, and where a loader stands after it.
struct Seen {
  std::vector<std::string> lines;
  std::vector<std::string> states;  // after each line; empty where a stage cannot save
};

std::string line_of(const Batch& batch) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3ULL; };
  for (std::size_t f = 0; f < batch.layout().fields.size(); ++f) {
    const std::size_t bytes = batch.layout().fields[f].row_bytes * batch.size();
    for (std::size_t i = 0; i < bytes; ++i) mix(static_cast<std::uint64_t>(batch.field_data(f)[i]));
    mix(bytes);
  }
  for (std::size_t row = 0; row < batch.size(); ++row) {
    for (const Origin& origin : batch.origins(row)) {
      mix(origin.source);
      mix(origin.index);
    }
  }
  return "epoch " + std::to_string(batch.epoch()) + " batch " + std::to_string(batch.index()) + " rows " +
         std::to_string(batch.size()) + " " + std::to_string(hash);
}

struct Setting {
  std::size_t threads = 1;
  std::size_t block_size = 0;
  bool tuned = false;
};

LoaderOptions options_of(const Setting& setting) {
  LoaderOptions options;
  options.epoch_count = kEpochs;
  options.seed = 11;
  options.max_sample_bytes = 1 << 16;
  options.kept_bytes = 1 << 20;
  options.block_size = setting.block_size;
  if (setting.tuned) {
    // A log of changes, made again at their batches.
    const auto change = [](std::uint64_t batch, const char* knob, std::size_t to) {
      TuningDecision decision;
      decision.batch = batch;
      decision.knob = knob;
      decision.to = to;
      return decision;
    };
    options.autotune.enabled = true;
    options.autotune.replay = {change(1, "block_size", 3), change(2, "reads_in_flight", 2),
                               change(2, "batches_ahead", 4), change(3, "threads", 1), change(4, "block_size", 1)};
  }
  return options;
}

/// Runs to the end of the last epoch, or until `most` lines.
Seen run(const Pipeline& pipeline, const Setting& setting, const std::string& state = {}, bool save = false) {
  const Runtime runtime({.threads = setting.threads, .budget_bytes = std::uint64_t{16} << 20, .io_threads = 1});
  LoaderOptions options = options_of(setting);
  if (!state.empty()) options.start = read_state(pipeline, state);
  const std::uint64_t first_epoch = options.start.epoch;
  Loader loader(runtime, pipeline, options);
  Seen seen;
  for (std::uint64_t epoch = first_epoch; epoch < kEpochs;) {
    try {
      const std::optional<Batch> batch = loader.next();
      seen.lines.push_back(batch ? line_of(*batch) : "end of epoch " + std::to_string(epoch));
      if (!batch) ++epoch;
    } catch (const SampleError& error) {
      seen.lines.push_back(std::string("error ") + error.what());
    }
    if (save) seen.states.push_back(loader.state());
  }
  return seen;
}

void expect_same(const std::vector<std::string>& expected, const std::vector<std::string>& got,
                 const std::string& what) {
  for (std::size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    ASSERT_EQ(expected[i], got[i]) << what << ", line " << i;
  }
  ASSERT_EQ(expected.size(), got.size()) << what;
}

// A state after the last batch of an epoch lies behind its end: that end does not come again.
std::vector<std::string> without_ends(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("end"); });
  return lines;
}

bool is_batch(const std::string& line) { return line.starts_with("epoch"); }

void check_plan(const Pipeline& pipeline, const std::string& name) {
  SCOPED_TRACE(name);
  const Seen base = run(pipeline, {.threads = 1, .block_size = 1}, {}, true);
  for (const Setting setting : {Setting{2, 0, false}, Setting{3, 2, true}, Setting{8, 5, false}}) {
    const Seen other = run(pipeline, setting);
    expect_same(base.lines, other.lines, "threads " + std::to_string(setting.threads));
    if (testing::Test::HasFatalFailure()) return;
  }
  // Every third batch is a place to start from.
  for (std::size_t k = base.lines.size() % 3; k < base.lines.size(); k += 3) {
    if (!is_batch(base.lines[k])) continue;
    const Seen rest = run(pipeline, {.threads = 1 + k % 3, .block_size = k % 4}, base.states[k]);
    const std::vector<std::string> after(base.lines.begin() + static_cast<std::ptrdiff_t>(k) + 1, base.lines.end());
    expect_same(without_ends(after), without_ends(rest.lines),
                "resumed after line " + std::to_string(k) + ", " + base.states[k]);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// Stages that cannot follow one another, and which word of the refusal says so.
bool must_be_refused(const Pipeline& before, std::string_view next) {
  const bool batched = before.plan().batch_depth > 0;
  const std::vector<Field>& fields = before.plan().schemas.back().fields();
  const bool ragged =
      std::any_of(fields.begin(), fields.end(), [](const Field& field) { return !field.shape.known(); });
  if (next == "batch") return ragged;
  if (next == "zip" || next == "concatenate" || next == "sample_from") return batched;
  return false;
}

class SameBatchesTest : public testing::TestWithParam<std::size_t> {};

// Every ordered pair of stages, in plans of at least three stages, a fifth of them with failing samples.
TEST_P(SameBatchesTest, AfterThisStageEveryOtherGivesTheSameForAllSettings) {
  const std::string_view first = kStages[GetParam()];
  std::size_t checked = 0;
  for (std::size_t s = 0; s < kStages.size(); ++s) {
    const std::string_view second = kStages[s];
    const std::uint64_t seed = 1000 * GetParam() + s;
    const auto needs_shapes = [](std::string_view stage) {
      return stage == "batch" || stage == "window" || stage == "unbatch";
    };
    RandomPlan random(seed, seed % 5 == 0, !needs_shapes(first) && !needs_shapes(second) && seed % 3 != 0);
    const std::uint64_t samples = s % 7 == 0 ? s % 2 : 20 + random.below(30);
    try {
      Pipeline pipeline = random.source(samples);
      if (first == "unbatch" || second == "unbatch")
        pipeline = random.add(pipeline, first == "unbatch" ? "batch" : "map");
      pipeline = random.add(pipeline, first);
      if (second == "unbatch" && pipeline.plan().batch_depth == 0) continue;
      if (must_be_refused(pipeline, second)) {
        EXPECT_THROW(static_cast<void>(random.add(pipeline, second)), InvalidArgument) << random.text();
        continue;
      }
      pipeline = random.add(pipeline, second);
      for (std::uint64_t more = random.below(3); more > 0; --more) {
        try {
          pipeline = random.add(pipeline, kStages[random.below(kStages.size())]);
        } catch (const InvalidArgument&) {
          // It cannot follow here: one stage less.
        }
      }
      pipeline = random.finish(pipeline);
      check_plan(pipeline,
                 "seed " + std::to_string(seed) + ", " + std::to_string(samples) + " samples:" + random.text());
      ++checked;
    } catch (const InvalidArgument& refused) {
      const std::string text = refused.what();
      EXPECT_TRUE(text.starts_with("cache: ") || second == "unbatch" || text.starts_with("loader: "))
          << "seed " << seed << ": " << random.text() << ": " << text;
    }
  }
  EXPECT_GE(checked, kStages.size() / 3);
}

INSTANTIATE_TEST_SUITE_P(Stages, SameBatchesTest, testing::Range(std::size_t{0}, kStages.size()),
                         [](const auto& stage) {
                           std::string name(kStages[stage.param]);
                           std::erase(name, '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock
