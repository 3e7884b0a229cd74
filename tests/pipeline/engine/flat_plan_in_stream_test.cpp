// Both engines give the same batches for flat plans.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/make_engine.h>
#include <penstock/pipeline/error.h>

#include "../../support/pipeline_support.h"

namespace penstock::engine {
namespace {

struct Event {
  std::string text;
  std::optional<Position> position;
};

/// What an engine hands out: rows, origins and numbers of batches, errors, ends.
class Events {
 public:
  Events(const Runtime& runtime, const Pipeline& pipeline, const LoaderOptions& options, EngineChoice choice)
      : engine_(make_engine(runtime.state(), pipeline.shared_plan(), options, choice)) {
    engine_->start();
  }
  ~Events() { engine_->shutdown(); }
  Event next() {
    const NextResult result = *engine_->take(true, {});
    try {
      if (result.error) std::rethrow_exception(result.error);
    } catch (const SampleError& error) {
      return {std::string("error ") + to_string(error.kind()) + " " + error.what(), {}};
    }
    if (!result.batch) return {"end", {}};
    const Batch& batch = *result.batch;
    std::string text = std::to_string(batch.epoch()) + "." + std::to_string(batch.index()) + " of " +
                       std::to_string(batch.capacity()) + ":";
    for (const std::int64_t x : test::values(batch)) text += " " + std::to_string(x);
    for (std::size_t row = 0; row < batch.size(); ++row) text += " <" + batch.describe(row);
    return {text, batch.position()};
  }
  std::vector<Event> epochs(std::size_t count) {
    std::vector<Event> all;
    while (count > 0) {
      all.push_back(next());
      if (all.back().text == "end") --count;
    }
    return all;
  }
  LoaderEngine& engine() { return *engine_; }

 private:
  std::shared_ptr<LoaderEngine> engine_;
};

std::vector<std::string> texts(const std::vector<Event>& events) {
  std::vector<std::string> all;
  for (const Event& event : events) all.push_back(event.text);
  return all;
}

/// A flat plan drawn at random; sometimes with maps that fail.
Pipeline random_plan(std::mt19937& random) {
  const auto below = [&](std::uint32_t limit) { return random() % limit; };
  const std::uint64_t counts[] = {0, 1, 2, 7, 30, 101};
  Pipeline plan = test::numbers(counts[below(6)]);
  const std::size_t stages = below(7);
  for (std::size_t i = 0; i < stages; ++i) {
    switch (below(9)) {
      case 0:
        plan = plan.shuffle({.seed = below(2) == 0 ? std::optional<std::uint64_t>() : 5});
        break;
      case 1:
        plan = plan.repeat(1 + below(3));
        break;
      case 2:
        plan = plan.take(below(40));
        break;
      case 3:
        plan = plan.skip(below(6));
        break;
      case 4:
        plan = plan.shard(below(3), 3, below(2) == 0 ? UnevenShards::kKeep : UnevenShards::kDrop);
        break;
      case 5:
        plan = plan.map("x", [](std::int64_t x) { return x + 1; });
        break;
      case 6:
        plan = plan.map(
            "x", [](std::int64_t x, Draw& draw) { return x * 1000 + static_cast<std::int64_t>(draw.below(1000)); });
        break;
      case 7:
        plan = plan.map("x", [](std::int64_t x) {
          if (x % 7 == 3) throw std::runtime_error("no " + std::to_string(x));
          return x;
        });
        break;
      default:
        plan = plan.map("x", Output{DataType::kI64, {}},
                        [](View<const std::int64_t> in, View<std::int64_t> out) { out[0] = in[0] - 2; });
    }
  }
  const LastBatch lasts[] = {LastBatch::kKeep, LastBatch::kDrop, LastBatch::kPad};
  plan = plan.batch(1 + below(9), lasts[below(3)]);
  if (below(3) == 0) plan = plan.prefetch(below(4));
  return plan;
}

TEST(FlatPlanInStreamTest, GivesTheSameBatches) {
  std::mt19937 random(11);
  std::size_t batches = 0;
  std::size_t errors = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const Pipeline plan = random_plan(random);
    ASSERT_TRUE(is_flat(plan.plan()));
    const Runtime runtime({.threads = 1 + random() % 4, .budget_bytes = std::uint64_t{1} << 20});
    LoaderOptions options{.epoch_count = 2, .seed = random() % 3, .max_sample_bytes = 4096};
    Events flat(runtime, plan, options, EngineChoice::kByPlan);
    options.block_size = random() % 4;
    options.reads_in_flight = random() % 3;
    Events stream(runtime, plan, options, EngineChoice::kStream);
    const std::vector<Event> expected = flat.epochs(2);
    const std::vector<Event> found = stream.epochs(2);
    ASSERT_EQ(texts(found), texts(expected)) << "trial " << trial << "\n" << plan.describe();
    EXPECT_EQ(stream.engine().batches_per_epoch(), flat.engine().batches_per_epoch());
    EXPECT_EQ(stream.engine().dropped_per_epoch(), flat.engine().dropped_per_epoch());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i].position) {
        errors += found[i].text != "end" ? 1 : 0;
        continue;
      }
      ++batches;
      EXPECT_EQ(found[i].position->epoch, expected[i].position->epoch) << trial;
      EXPECT_EQ(found[i].position->slot, expected[i].position->slot) << trial << " " << plan.describe();
    }
    // From some batch on.
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].position) places.push_back(i);
    }
    if (places.empty()) continue;
    const std::size_t at = places[random() % places.size()];
    options.start = *found[at].position;
    std::vector<std::string> rest;
    for (std::size_t i = at + 1; i < found.size(); ++i) rest.push_back(found[i].text);
    // The end that follows the last batch of an epoch belongs to the epoch that has been left.
    if (options.start.slot == 0 && rest.size() > 1) rest.erase(rest.begin());
    Events resumed(runtime, plan, options, EngineChoice::kStream);
    std::vector<std::string> gone_on;
    while (gone_on.size() < rest.size()) gone_on.push_back(resumed.next().text);
    EXPECT_EQ(gone_on, rest) << "trial " << trial << " from event " << at << "\n" << plan.describe();
  }
  EXPECT_GT(batches, 500U);
  EXPECT_GT(errors, 50U);
}

TEST(FlatPlanInStreamTest, ReadsFailAndAreTooLargeAlike) {
  const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>{3, -1, 5000, 3, 3, -1, 0});
  const Pipeline plan =
      Pipeline(source)
          .map(
              [](const Sample& sample) {
                return Sample({"x"},
                              {Tensor::scalar<std::int64_t>(static_cast<std::int64_t>(sample["bytes"].size_bytes()))});
              },
              Outputs{{"x", DataType::kI64, {}}})
          .batch(3);
  const Runtime runtime({.threads = 2, .budget_bytes = std::uint64_t{1} << 20});
  const LoaderOptions options{.epoch_count = 2, .max_sample_bytes = 4096};
  Events flat(runtime, plan, options, EngineChoice::kByPlan);
  Events stream(runtime, plan, options, EngineChoice::kStream);
  const std::vector<std::string> expected = texts(flat.epochs(2));
  EXPECT_EQ(expected.size(), 14U);
  EXPECT_EQ(texts(stream.epochs(2)), expected);
}

TEST(FlatPlanInStreamTest, SkipLeavesTheRestInOrder) {
  const Pipeline plan = test::numbers(20)
                            .map("x",
                                 [](std::int64_t x) {
                                   if (x % 30 == 0) throw std::runtime_error("no " + std::to_string(x));
                                   return x;
                                 })
                            .batch(4)
                            .on_error({.action = OnError::kSkip});
  for (const std::size_t threads : {1U, 3U}) {
    const Runtime runtime({.threads = threads, .budget_bytes = std::uint64_t{1} << 20});
    Loader loader(runtime, plan, {.epoch_count = 2, .max_sample_bytes = 4096});
    std::vector<std::int64_t> expected;
    for (std::int64_t x = 0; x < 200; x += 10) {
      if (x % 30 != 0) expected.push_back(x);
    }
    EXPECT_EQ(test::flat_epoch(loader), expected);
    EXPECT_EQ(loader.faults().size(), 7U);
    EXPECT_EQ(loader.faults()[1].message, "no 30");
    EXPECT_EQ(loader.faults()[1].batch, 0U);
    EXPECT_EQ(test::flat_epoch(loader), expected);
    EXPECT_EQ(loader.faults().size(), 14U);
    EXPECT_EQ(loader.report().skipped, 14U);
  }
}

}  // namespace
}  // namespace penstock::engine
