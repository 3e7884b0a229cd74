// Maps in parallel, over sources and over operators: order, budgets, failures, caches, positions, endings.
#include <penstock/pipeline/engine/rows_operator.h>

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/stream_plan.h>

#include "../../support/operator_support.h"
#include "../../support/pipeline_support.h"

namespace penstock::engine {
namespace {

using test::BytesSource;
using test::drain;
using test::error_element;
using test::expect_lawful;
using test::KeepAllStore;
using test::ListOperator;
using test::number_element;
using test::numbers;
using test::numbers_of;
using test::Pending;
using test::pull;
using test::skipped_element;
using test::StreamFixture;
using test::texts;

using Values = std::vector<std::int64_t>;

/// Completes sinks on a thread of its own, in an order drawn at random.
class Completer {
 public:
  explicit Completer(std::uint64_t seed) : random_(seed), thread_([this] { work(); }) {}
  ~Completer() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  void add(Sink& sink) {
    {
      const std::lock_guard lock(mutex_);
      sinks_.push_back(&sink);
    }
    changed_.notify_all();
  }
  /// Nothing is completed until `open` is called.
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait_for(std::size_t sinks) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sinks_.size() >= sinks; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || (open_ && !sinks_.empty()); });
      if (sinks_.empty()) return;
      const std::size_t at = random_() % sinks_.size();
      Sink* const sink = sinks_[at];
      sinks_.erase(sinks_.begin() + static_cast<std::ptrdiff_t>(at));
      lock.unlock();
      sink->done();
      lock.lock();
    }
  }
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sink*> sinks_;
  bool open_ = true;
  bool ends_ = false;
  std::thread thread_;
};

std::unique_ptr<Operator> made(StreamContext& context, const Pipeline& pipeline) {
  return make_operators(pipeline.plan(), context, false);
}

/// The maps of `pipeline` over `input`.
std::unique_ptr<Operator> over(StreamContext& context, std::unique_ptr<Operator> input, const Pipeline& pipeline) {
  const Plan& plan = pipeline.plan();
  std::vector<BoundStage> stages;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    stages.push_back({&plan.stages[i], &plan.schemas[i], &plan.schemas[i + 1]});
  }
  return std::make_unique<RowsOperator>(context, RowsProgram(context, stages, plan.schemas.front(), {}, "expected "),
                                        std::move(input));
}

/// Everything of an epoch, with its own fixture.
std::vector<Element> all_of(const Pipeline& pipeline, std::size_t threads, std::uint64_t budget = 64 << 20,
                            std::uint64_t most = 1 << 20, const Pass& pass = {}) {
  StreamFixture fixture({.threads = threads, .budget_bytes = budget}, most, 0);
  std::unique_ptr<Operator> root = made(fixture.context, pipeline);
  root->start(pass);
  std::vector<Element> all;
  Element element;
  while (pull(fixture, *root, element) == Pull::kElement) {
    all.push_back(test::copy_of(element));
    element = {};
    fixture.context.runtime.room_freed();
  }
  fixture.drop(std::move(root));
  EXPECT_LE(fixture.context.runtime.budget()->peak(), budget);
  EXPECT_EQ(fixture.context.runtime.budget()->current(), 0U);
  return all;
}

Pipeline tenfold(std::uint64_t count) {
  return numbers(count).map("x", [](std::int64_t x) {
    if (x % 70 == 50) throw std::runtime_error("no " + std::to_string(x));
    return x * 2 + 1;
  });
}

std::string reason(const Element& element) {
  try {
    std::rethrow_exception(element.failure->error);
  } catch (const std::exception& error) {
    return element.failure->stage + ": " + error.what();
  }
}

TEST(RowsOperatorTest, GivesMappedRowsInOrder) {
  for (const std::uint64_t count : {0U, 1U, 2U, 300U}) {
    Values expected;
    for (std::uint64_t i = 0; i < count; ++i) expected.push_back(static_cast<std::int64_t>(i) * 20 + 1);
    const Pipeline pipeline = numbers(count).map("x", [](std::int64_t x) { return x * 2 + 1; });
    for (const std::size_t threads : {1U, 2U, 3U, 8U}) EXPECT_EQ(numbers_of(all_of(pipeline, threads)), expected);
  }
}

TEST(RowsOperatorTest, CarriesBytesInAlignedMemoryThatIsCharged) {
  StreamFixture fixture;
  const auto root = made(fixture.context, Pipeline(std::make_shared<BytesSource>(std::vector<std::int64_t>{3, 0, 5})));
  root->start({});
  const std::vector<Element> all = drain(fixture, *root);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].charge.bytes(), 3U);
  EXPECT_EQ(all[2].charge.bytes(), 5U);
  EXPECT_EQ(all[1].sample["bytes"].shape(), Shape{0});
  const Tensor& bytes = all[2].sample["bytes"];
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64, 0U);
  EXPECT_EQ(bytes.data()[4], std::byte{6});
  EXPECT_EQ(all[2].origins, (std::vector<Origin>{{0, 2}}));
}

TEST(RowsOperatorTest, FailedRowsTakeTheirPlace) {
  const std::vector<Element> all = all_of(tenfold(10), 2);
  EXPECT_EQ(numbers_of(all), (Values{1, 21, 41, 61, 81, -1, 121, 141, 161, 181}));
  EXPECT_EQ(reason(all[5]), "map(x): no 50");
  EXPECT_EQ(all[5].failure->origin, (Origin{0, 5}));

  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>{1, -1, 2});
  const std::vector<Element> read = all_of(Pipeline(source), 2);
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(reason(read[1]), "read: truncated: it ends too early");
}

TEST(RowsOperatorTest, SkipPolicyMarksFailedRows) {
  StreamFixture fixture;
  fixture.context.skip_errors = true;
  const auto root = made(fixture.context, tenfold(7));
  root->start({});
  const std::vector<Element> all = drain(fixture, *root);
  EXPECT_EQ(numbers_of(all), (Values{1, 21, 41, 61, 81, -2, 121}));
  EXPECT_EQ(reason(all[5]), "map(x): no 50");
}

TEST(RowsOperatorTest, DroppedRowsVanish) {
  const Pipeline pipeline =
      numbers(100).filter("x", [](std::int64_t x) { return x % 30 == 0; }).map("x", [](std::int64_t x) {
        return x + 1;
      });
  Values expected;
  for (std::int64_t x = 0; x < 1000; x += 30) expected.push_back(x + 1);
  for (const std::size_t threads : {1U, 3U}) EXPECT_EQ(numbers_of(all_of(pipeline, threads)), expected);
  EXPECT_TRUE(all_of(numbers(50).filter("x", [](std::int64_t) { return false; }), 2).empty());
}

TEST(RowsOperatorTest, ObeysTheLawsOfOperatorsOverASource) {
  const Pipeline pipeline =
      tenfold(23)
          .shuffle({.seed = 3})
          .repeat(2)
          .filter("x", [](std::int64_t x) { return x % 3 != 0; })
          .map("x", [](std::int64_t x, Draw& draw) { return x + static_cast<std::int64_t>(draw.below(1000)) * 1000; });
  for (const std::size_t block_size : {0U, 1U, 4U, 64U}) {
    for (const Pass& pass : {Pass{}, Pass{.epoch = 2, .passes = 77, .repeated = true}}) {
      expect_lawful(
          [&](StreamContext& context, const Pending&) {
            context.draw_count = 0;
            context.source_count = 0;
            context.sources.clear();
            context.block_size = block_size;
            return made(context, pipeline);
          },
          pass);
    }
  }
}

TEST(RowsOperatorTest, ObeysTheLawsOfOperatorsOverAnInput) {
  const Pipeline maps =
      numbers(1).filter("x", [](std::int64_t x) { return x % 30 != 0; }).map("x", [](std::int64_t x, Draw& draw) {
        if (x == 110) throw std::runtime_error("no");
        return x + static_cast<std::int64_t>(draw.below(1000)) * 1000;
      });
  for (const std::size_t count : {0U, 1U, 20U}) {
    for (const std::size_t block_size : {0U, 3U, 64U}) {
      expect_lawful([&](StreamContext& context, Pending pending) {
        std::vector<Element> list;
        for (std::size_t i = 0; i < count; ++i) {
          list.push_back(i == 4   ? error_element(i)
                         : i == 9 ? skipped_element(i)
                                  : number_element(static_cast<std::int64_t>(i) * 10, i));
        }
        context.draw_count = 0;
        context.block_size = block_size;
        return over(context, std::make_unique<ListOperator>(context, ListOperator::items(std::move(list)), pending),
                    maps);
      });
    }
  }
}

TEST(RowsOperatorTest, PassesErrorsAndSkippedElementsOn) {
  StreamFixture fixture;
  std::vector<Element> list;
  list.push_back(number_element(1, 0));
  list.push_back(error_element(1));
  list.push_back(skipped_element(2));
  list.push_back(number_element(4, 3));
  const auto root =
      over(fixture.context, std::make_unique<ListOperator>(fixture.context, ListOperator::items(std::move(list))),
           numbers(1).map("x", [](std::int64_t x) { return -10 * x; }));
  root->start({});
  const std::vector<Element> all = drain(fixture, *root);
  EXPECT_EQ(numbers_of(all), (Values{-10, -1, -2, -40}));
  EXPECT_EQ(reason(all[1]), "read: bad bytes");
}

/// Throws at its third element.
class ThrowingOperator final : public Operator {
 public:
  void start(const Pass&) override { at_ = 0; }
  Pull next(Element& out) override {
    if (at_ == 2) throw Error("the stream is broken");
    out = number_element(at_, static_cast<std::uint64_t>(at_));
    ++at_;
    return Pull::kElement;
  }
  void save(Cursor& cursor) const override { cursor.numbers.push_back(static_cast<std::uint64_t>(at_)); }
  void restore(const Pass&, CursorReader& cursor) override { at_ = static_cast<std::int64_t>(cursor.number()); }

 private:
  std::int64_t at_ = 0;
};

TEST(RowsOperatorTest, ThrowsWhatItsInputThrowsInItsPlace) {
  for (const std::size_t block_size : {1U, 2U, 8U}) {
    StreamFixture fixture;
    fixture.context.block_size = block_size;
    const auto root = over(fixture.context, std::make_unique<ThrowingOperator>(),
                           numbers(1).map("x", [](std::int64_t x) { return x + 5; }));
    root->start({});
    Values seen;
    try {
      Element element;
      while (pull(fixture, *root, element) == Pull::kElement)
        seen.push_back(element.sample["x"].view<std::int64_t>()[0]);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the stream is broken");
    }
    EXPECT_EQ(seen, (Values{5, 6}));
  }
}

std::vector<std::int64_t> mixed_sizes(std::size_t count, std::int64_t most) {
  std::mt19937_64 random(11);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    switch (random() % 5) {
      case 0:
        sizes.push_back(1);
        break;
      case 1:
        sizes.push_back(0);
        break;
      case 2:
        sizes.push_back(most);
        break;
      case 3:
        sizes.push_back(i % 3 == 0 ? -1 : most / 2);
        break;
      default:
        sizes.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)));
        break;
    }
  }
  return sizes;
}

TEST(RowsOperatorTest, TheTightestBudgetGivesTheSameRows) {
  constexpr std::int64_t kMost = 4096;
  const std::vector<std::int64_t> sizes = mixed_sizes(200, kMost);
  const auto pipeline = [](std::shared_ptr<BytesSource> source) {
    return Pipeline(std::move(source)).shuffle().map([](Sample sample) { return sample; });
  };
  // The function's copies count too, so some samples are too large: the same ones everywhere.
  const std::vector<std::string> expected =
      texts(all_of(pipeline(std::make_shared<BytesSource>(sizes)), 1, 64 << 20, kMost));
  ASSERT_EQ(expected.size(), sizes.size());
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    for (const std::uint64_t spare : {0, 1, 4096, 10000}) {
      Completer completer(threads * 100 + spare);
      auto source = std::make_shared<BytesSource>(sizes);
      source->finish = [&](Sink& sink) { completer.add(sink); };
      EXPECT_EQ(texts(all_of(pipeline(source), threads, 2 * kMost + spare, kMost)), expected)
          << threads << " threads, " << spare << " bytes to spare";
    }
  }
}

TEST(RowsOperatorTest, WaitsForRoomHoldingNothing) {
  constexpr std::uint64_t kMost = 1000;
  StreamFixture fixture({.threads = 2, .budget_bytes = 2 * kMost}, kMost, 0);
  auto root = made(fixture.context, Pipeline(std::make_shared<BytesSource>(std::vector<std::int64_t>(20, 1000))));
  root->start({});
  Element first;
  ASSERT_EQ(pull(fixture, *root, first), Pull::kElement);
  Element second;
  EXPECT_EQ(root->next(second), Pull::kPending) << "the first one still has the bytes";
  first = {};
  fixture.context.runtime.room_freed();
  for (int i = 1; i < 20; ++i) {
    second = {};
    ASSERT_EQ(pull(fixture, *root, second), Pull::kElement) << i;
    EXPECT_EQ(second.sample.size_bytes(), 1000U);
  }
  second = {};
  EXPECT_EQ(pull(fixture, *root, second), Pull::kEnd);
  EXPECT_LE(fixture.context.runtime.budget()->peak(), 2 * kMost);
  fixture.drop(std::move(root));
}

TEST(RowsOperatorTest, TooLargeSamplesSayTheSums) {
  const auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>{10, 2000, 20});
  const std::vector<Element> all = all_of(Pipeline(source), 2, 64 << 20, 1000);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(reason(all[1]),
            "read: reading the sample takes at least 2000 bytes, the most allowed is 1000 "
            "(LoaderOptions::max_sample_bytes)");
  EXPECT_TRUE(all[2].is_value());
}

TEST(RowsOperatorTest, ReadsNeverExceedTheKnob) {
  for (const std::size_t limit : {1U, 2U, 5U}) {
    Completer completer(limit);
    auto source = std::make_shared<BytesSource>(mixed_sizes(100, 64));
    source->finish = [&](Sink& sink) { completer.add(sink); };
    StreamFixture fixture;
    fixture.context.reads_in_flight = limit;
    std::unique_ptr<Operator> root = made(fixture.context, Pipeline(source));
    root->start({});
    EXPECT_EQ(drain(fixture, *root).size(), 100U);
    EXPECT_LE(fixture.context.reads_most, limit);
    EXPECT_GE(fixture.context.reads_most, 1U);
    fixture.drop(std::move(root));
  }
}

TEST(RowsOperatorTest, CachedRowsAreTheSameRows) {
  const auto pipeline = [](std::shared_ptr<SampleStore> store) {
    Pipeline all = numbers(12).repeat(4).shuffle().map("x", [](std::int64_t x) {
      if (x == 30) throw std::runtime_error("no");
      return x + 3;
    });
    if (store) all = all.cache(std::move(store));
    return all.map("x",
                   [](std::int64_t x, Draw& draw) { return x * 1000 + static_cast<std::int64_t>(draw.below(999)); });
  };
  const std::vector<std::string> expected = texts(all_of(pipeline(nullptr), 1));
  ASSERT_EQ(expected.size(), 48U);
  for (const std::size_t threads : {1U, 2U, 8U}) {
    for (const bool keeps : {true, false}) {
      const auto store = std::make_shared<KeepAllStore>();
      store->keeps = keeps;
      EXPECT_EQ(texts(all_of(pipeline(store), threads)), expected);
      EXPECT_EQ(texts(all_of(pipeline(store), threads)), expected) << "again";
      EXPECT_EQ(store->loading(), 0U);
      if (keeps) {
        EXPECT_GT(store->hits(), 50U);
      }
    }
  }
}

TEST(RowsOperatorTest, AStreamAndAFlatPlanShareACache) {
  const auto store = std::make_shared<KeepAllStore>();
  const auto maps = [](const Pipeline& from) {
    return from.map(Identity{"triple", 1, ""}, "x", [](std::int64_t x) { return x * 3; });
  };
  EXPECT_EQ(all_of(maps(numbers(6)).cache(store), 2).size(), 6U);
  EXPECT_EQ(store->hits(), 0U);
  const Pipeline filtered = maps(numbers(6)).filter("x", [](std::int64_t x) { return x % 60 == 0; }).cache(store);
  EXPECT_EQ(numbers_of(all_of(filtered, 2)), (Values{0, 60, 120}));
  EXPECT_EQ(store->hits(), 3U);
}

TEST(RowsOperatorTest, EndsInTheMiddleOfReadsAndLoads) {
  for (std::uint64_t pulled = 0; pulled < 6; ++pulled) {
    const auto store = std::make_shared<KeepAllStore>();
    Completer completer(pulled);
    auto source = std::make_shared<BytesSource>(mixed_sizes(60, 64));
    source->finish = [&](Sink& sink) { completer.add(sink); };
    StreamFixture fixture({.threads = 3, .budget_bytes = 64 << 20});
    std::unique_ptr<Operator> root = made(fixture.context, Pipeline(source).cache(store));
    root->start({});
    Element element;
    for (std::uint64_t i = 0; i < pulled; ++i) ASSERT_EQ(pull(fixture, *root, element), Pull::kElement);
    element = {};
    fixture.drop(std::move(root));
    EXPECT_EQ(store->loading(), 0U) << "every load that was begun has been given up";
    EXPECT_EQ(fixture.context.runtime.budget()->current(), 0U);
  }
}

TEST(RowsOperatorTest, ReadsThatAreOutMayComeBackAfterTheOperatorHasGone) {
  Completer completer(1);
  completer.close();
  auto source = std::make_shared<BytesSource>(std::vector<std::int64_t>(50, 100));
  source->finish = [&](Sink& sink) { completer.add(sink); };
  StreamFixture fixture;
  std::unique_ptr<Operator> root = made(fixture.context, Pipeline(source));
  root->start({});
  Element element;
  EXPECT_EQ(root->next(element), Pull::kPending);
  completer.wait_for(1);
  // Started again: the reads of before are nobody's.
  root->start({.epoch = 1});
  EXPECT_EQ(root->next(element), Pull::kPending);
  completer.open();
  EXPECT_EQ(drain(fixture, *root).size(), 50U);
  completer.close();
  root->start({.epoch = 2});
  EXPECT_EQ(root->next(element), Pull::kPending);
  completer.wait_for(1);
  root.reset();
  completer.open();
  fixture.drop(nullptr);
  EXPECT_EQ(fixture.context.runtime.budget()->current(), 0U);
}

TEST(RowsOperatorTest, CountsWhatItsStagesDo) {
  StreamFixture fixture;
  const auto root = made(
      fixture.context, Pipeline(std::make_shared<BytesSource>(std::vector<std::int64_t>{4, 6})).map([](Sample sample) {
        return sample;
      }));
  root->start({});
  EXPECT_EQ(drain(fixture, *root).size(), 2U);
  ASSERT_EQ(fixture.counters().size(), 2U);
  EXPECT_EQ(fixture.counters()[0].first, "read");
  EXPECT_EQ(fixture.counters()[0].second->count(), 2U);
  EXPECT_EQ(fixture.counters()[0].second->bytes(), 10U);
  EXPECT_EQ(fixture.counters()[1].first, "map");
  EXPECT_EQ(fixture.counters()[1].second->count(), 2U);
  EXPECT_EQ(fixture.counters()[1].second->bytes(), 10U);
  EXPECT_GT(fixture.counters()[1].second->seconds(), 0.0);
}

}  // namespace
}  // namespace penstock::engine
