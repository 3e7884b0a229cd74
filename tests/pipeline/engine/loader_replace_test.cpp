// Policy replace: another sample of the epoch takes the place of one that fails, chosen by the seed alone; and reads
// that take too long; and full last batches.
#include <penstock/pipeline/loader.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <penstock/pipeline/engine/replacement.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/error_policy.h>

#include "support/gate.h"
#include "support/pipeline_support.h"

namespace penstock {
namespace {

using test::flat_epoch;
using test::numbers;
using test::values;
using ::testing::HasSubstr;
using Values = std::vector<std::int64_t>;

/// Every number in `bad` fails, as a map.
Pipeline failing(const Pipeline& pipeline, std::set<std::int64_t> bad) {
  return pipeline.map("x", [bad = std::move(bad)](std::int64_t x) {
    if (bad.contains(x / 10)) throw std::runtime_error("bad number " + std::to_string(x));
    return x;
  });
}

struct Delivered {
  std::vector<Values> batches;
  std::vector<std::uint64_t> origins;
  std::vector<SampleFault> faults;
};

Delivered run(const Pipeline& pipeline, std::size_t threads, LoaderOptions options = {}) {
  const Runtime runtime({.threads = threads});
  options.epoch_count = 2;
  Loader loader(runtime, pipeline, options);
  Delivered all;
  for (std::uint64_t epoch = options.start.epoch; epoch < 2; ++epoch) {
    while (const std::optional<Batch> batch = loader.next()) {
      all.batches.push_back(values(*batch));
      for (std::size_t row = 0; row < batch->size(); ++row) all.origins.push_back(batch->origin(row).index);
    }
  }
  all.faults = loader.faults();
  EXPECT_EQ(loader.report().replaced, all.faults.size());
  return all;
}

TEST(ReplaceTest, AnotherSampleOfTheEpochTakesThePlace) {
  const Pipeline pipeline =
      failing(numbers(40).shuffle({.seed = 5}), {7, 23}).batch(6).on_error({.action = OnError::kReplace});
  const Delivered all = run(pipeline, 2);
  ASSERT_EQ(all.batches.size(), 14u);
  ASSERT_EQ(all.origins.size(), 80u);
  std::size_t at = 0;
  std::map<std::uint64_t, int> seen;
  for (const Values& batch : all.batches) {
    for (const std::int64_t x : batch) {
      EXPECT_EQ(static_cast<std::uint64_t>(x / 10), all.origins[at++])
          << "the origin is that of the sample that is there";
      ++seen[static_cast<std::uint64_t>(x / 10)];
    }
  }
  EXPECT_FALSE(seen.contains(7));
  EXPECT_FALSE(seen.contains(23));
  EXPECT_EQ(seen.size(), 38u);

  ASSERT_GE(all.faults.size(), 4u);
  for (const SampleFault& fault : all.faults) {
    EXPECT_TRUE(fault.index == 7 || fault.index == 23);
    EXPECT_EQ(fault.stage, "map(x)");
    EXPECT_EQ(fault.source, "number " + std::to_string(fault.index));
    EXPECT_EQ(fault.message, "bad number " + std::to_string(fault.index * 10));
    EXPECT_EQ(fault.kind, ErrorKind::kUserCode);
    ASSERT_TRUE(fault.replacement);
    const std::size_t first = fault.epoch * 40 + fault.batch * 6;
    const std::size_t size = fault.batch == 6 ? 4 : 6;
    const auto begin = all.origins.begin() + static_cast<std::ptrdiff_t>(first);
    EXPECT_NE(std::find(begin, begin + static_cast<std::ptrdiff_t>(size), *fault.replacement),
              begin + static_cast<std::ptrdiff_t>(size));
  }
  EXPECT_TRUE(std::is_sorted(all.faults.begin(), all.faults.end(), [](const SampleFault& a, const SampleFault& b) {
    return std::pair(a.epoch, a.batch) < std::pair(b.epoch, b.batch);
  }));
}

TEST(ReplaceTest, IsEqualForAnyThreadsAndBlocks) {
  const Pipeline pipeline =
      failing(numbers(100).shuffle({.seed = 5}), {1, 2, 3, 50, 51, 52, 53, 97})
          .map("x", [](std::int64_t x, Draw& draw) { return x + static_cast<std::int64_t>(draw.below(10)); })
          .batch(8)
          .on_error({.action = OnError::kReplace});
  const Delivered first = run(pipeline, 1, {.block_size = 1});
  EXPECT_GE(first.faults.size(), 16u);
  for (const std::size_t threads : {1, 2, 3, 8}) {
    for (const std::size_t block : {0, 1, 3, 8}) {
      const Delivered other = run(pipeline, threads, {.block_size = block});
      EXPECT_EQ(other.batches, first.batches) << threads << " threads, block " << block;
      EXPECT_EQ(other.origins, first.origins);
      EXPECT_EQ(other.faults, first.faults);
    }
  }
}

TEST(ReplaceTest, ResumesAtEveryBatchWithTheSameReplacements) {
  const Pipeline pipeline =
      failing(numbers(30).shuffle({.seed = 9}), {4, 5, 6, 20}).batch(4).on_error({.action = OnError::kReplace});
  const Delivered whole = run(pipeline, 2);
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, pipeline, {.epoch_count = 2});
  for (std::size_t taken = 1; taken <= 8; ++taken) {
    const std::optional<Batch> batch = loader.next();
    ASSERT_TRUE(batch);
    const Delivered rest = run(pipeline, 3, {.start = batch->position()});
    EXPECT_EQ(rest.batches,
              std::vector<Values>(whole.batches.begin() + static_cast<std::ptrdiff_t>(taken), whole.batches.end()));
  }
}

TEST(ReplaceTest, DrawsAreThoseOfTheSlot) {
  const auto draws = [](const Pipeline& pipeline) {
    const Runtime runtime({.threads = 2});
    Loader loader(runtime, pipeline, {.epoch_count = 1});
    return flat_epoch(loader);
  };
  const auto draw = [](std::int64_t, Draw& of) { return static_cast<std::int64_t>(of.below(1'000'000)); };
  const Values good = draws(numbers(20).map("x", draw).batch(4));
  const Values replaced =
      draws(failing(numbers(20), {3, 11}).map("x", draw).batch(4).on_error({.action = OnError::kReplace}));
  EXPECT_EQ(replaced, good);
  EXPECT_EQ(std::set<std::int64_t>(good.begin(), good.end()).size(), 20u);
}

TEST(ReplaceTest, RanksTakeFromTheirOwnPart) {
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const Pipeline part = numbers(60).shuffle({.seed = 2}).shard(rank, 3);
    const Runtime runtime({.threads = 2});
    Loader plain(runtime, part.batch(5), {.epoch_count = 1});
    const Values own = flat_epoch(plain);
    const std::int64_t victim = own[own.size() / 2] / 10;
    Loader loader(runtime, failing(part, {victim}).batch(5).on_error({.action = OnError::kReplace}),
                  {.epoch_count = 1});
    const Values got = flat_epoch(loader);
    ASSERT_EQ(got.size(), own.size());
    for (const std::int64_t x : got) {
      EXPECT_NE(x, victim * 10);
      EXPECT_NE(std::find(own.begin(), own.end(), x), own.end());
    }
  }
}

TEST(ReplaceTest, FailsWhenNoneOfEightWorks) {
  const Runtime runtime({.threads = 2});
  std::set<std::int64_t> bad;
  for (std::int64_t i = 1; i < 20; ++i) bad.insert(i);
  Loader loader(runtime, failing(numbers(1000).take(20), bad).batch(20).on_error({.action = OnError::kReplace}),
                {.epoch_count = 1});
  std::size_t errors = 0;
  std::size_t rows = 0;
  for (bool more = true; more;) {
    try {
      const std::optional<Batch> batch = loader.next();
      more = batch.has_value();
      for (std::size_t row = 0; more && row < batch->size(); ++row) {
        EXPECT_EQ(batch->origin(row).index, 0u);
        ++rows;
      }
    } catch (const SampleError& error) {
      EXPECT_TRUE(bad.contains(static_cast<std::int64_t>(error.index())));
      EXPECT_THAT(error.what(), HasSubstr("\": bad number " + std::to_string(error.index() * 10)));
      ++errors;
    }
  }
  EXPECT_EQ(errors + rows, 20u);
  EXPECT_GT(errors, 0u);
}

TEST(ReplaceTest, ASingleSampleHasNoReplacement) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, failing(numbers(1), {0}).batch(2).on_error({.action = OnError::kReplace}), {.epoch_count = 1});
  EXPECT_THROW(loader.next(), SampleError);
  EXPECT_FALSE(loader.next());
  EXPECT_TRUE(loader.faults().empty());
}

TEST(ReplaceTest, TheLimitIsReachedInOrderOfDelivery) {
  for (const std::size_t threads : {1, 8}) {
    const Runtime runtime({.threads = threads});
    Loader loader(runtime,
                  failing(numbers(40), {3, 17, 30}).batch(5).on_error({.action = OnError::kReplace, .limit = 2}),
                  {.epoch_count = 1, .block_size = 1});
    std::size_t rows = 0;
    try {
      while (const std::optional<Batch> batch = loader.next()) rows += batch->size();
      FAIL() << "nothing was thrown";
    } catch (const ErrorLimitReached& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("on_error: 2 failed samples are allowed, and one more failed; map(x): sample 30"));
      try {
        error.rethrow_nested();
      } catch (const SampleError& nested) {
        EXPECT_EQ(nested.index(), 30u);
      }
    }
    EXPECT_EQ(rows, 30u) << "all rows before it";
    EXPECT_THROW(loader.next(), ErrorLimitReached) << "and nothing more";
    ASSERT_EQ(loader.faults().size(), 2u);
    EXPECT_EQ(loader.faults()[0].index, 3u);
    EXPECT_EQ(loader.faults()[1].index, 17u);
  }
}

TEST(ReplaceTest, TheCacheKeepsTheReplacementUnderItsOwnKey) {
  const Runtime runtime({.threads = 3});
  const auto store = std::make_shared<test::KeepAllStore>();
  const Pipeline cached =
      failing(numbers(50).shuffle({.seed = 4}), {5, 6}).cache(store).batch(7).on_error({.action = OnError::kReplace});
  const Pipeline plain =
      failing(numbers(50).shuffle({.seed = 4}), {5, 6}).batch(7).on_error({.action = OnError::kReplace});
  Loader a(runtime, cached, {.epoch_count = 3});
  Loader b(runtime, plain, {.epoch_count = 3});
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(flat_epoch(a), flat_epoch(b));
  EXPECT_EQ(store->loading(), 0u);
  EXPECT_EQ(a.faults(), b.faults());
}

TEST(ReplaceTest, SourcesThatFailAreReplacedToo) {
  const Runtime runtime({.threads = 2});
  std::vector<std::int64_t> sizes(20, 3);
  sizes[4] = -1;
  sizes[5] = -1;
  const Pipeline pipeline = Pipeline(std::make_shared<test::BytesSource>(sizes))
                                .map("bytes", Output{DataType::kI64, {}},
                                     [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[0]; })
                                .batch(6)
                                .on_error({.action = OnError::kReplace});
  Loader loader(runtime, pipeline, {.epoch_count = 1});
  const Values got = flat_epoch(loader, "bytes");
  ASSERT_EQ(got.size(), 20u);
  EXPECT_NE(got[4], 4);
  EXPECT_NE(got[5], 5);
  EXPECT_EQ(got[6], 6);
  ASSERT_GE(loader.faults().size(), 2u);
  EXPECT_EQ(loader.faults()[0].stage, "read");
  EXPECT_EQ(loader.faults()[0].kind, ErrorKind::kTruncated);
}

TEST(ReplacementSlotTest, IsSpreadOverAllOthersAndNeverItself) {
  std::map<std::uint64_t, int> seen;
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) {
    for (std::uint32_t attempt = 0; attempt < 2; ++attempt) {
      const auto slot = engine::replacement_slot(7, epoch, 3, attempt, 9);
      ASSERT_TRUE(slot);
      ++seen[*slot];
    }
  }
  EXPECT_FALSE(seen.contains(3));
  ASSERT_EQ(seen.size(), 8u);
  for (const auto& [slot, count] : seen) EXPECT_NEAR(count, 1000, 150) << slot;
  EXPECT_FALSE(engine::replacement_slot(7, 0, 0, 0, 1));
}

TEST(ReadTimeoutTest, ARowWhoseReadIsOutTooLongFailsInItsPlace) {
  const Runtime runtime({.threads = 2});
  const auto source = std::make_shared<test::BytesSource>(Values(12, 4));
  std::mutex mutex;
  std::vector<Sink*> late;
  std::atomic<int> answered{0};
  source->finish = [&](Sink& sink) {
    if (answered++ == 5) {
      const std::lock_guard lock(mutex);
      late.push_back(&sink);
    } else {
      sink.done();
    }
  };
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kI64, {}},
                                     [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[0]; })
                                .batch(4);
  Loader loader(runtime, pipeline, {.epoch_count = 1, .block_size = 1, .read_timeout = std::chrono::milliseconds(30)});
  std::size_t rows = 0;
  std::size_t errors = 0;
  for (bool more = true; more;) {
    try {
      const std::optional<Batch> batch = loader.next();
      more = batch.has_value();
      for (std::size_t row = 0; more && row < batch->size(); ++row) {
        EXPECT_EQ(values(*batch, "bytes")[row], static_cast<std::int64_t>(batch->origin(row).index));
        ++rows;
      }
    } catch (const SampleError& error) {
      ++errors;
      EXPECT_EQ(error.kind(), ErrorKind::kTimedOut);
      EXPECT_EQ(error.stage(), "read");
      EXPECT_THAT(error.what(), HasSubstr("the source did not answer within 30 ms (LoaderOptions::read_timeout)"));
    }
  }
  EXPECT_EQ(rows, 11u);
  EXPECT_EQ(errors, 1u);
  for (Sink* const sink : late) sink->done();  // is let go
}

TEST(ReadTimeoutTest, LateAnswersAreHarmlessEvenAfterTheLoader) {
  const auto source = std::make_shared<test::BytesSource>(Values(8, 64));
  std::mutex mutex;
  std::vector<Sink*> late;
  source->finish = [&](Sink& sink) {
    const std::lock_guard lock(mutex);
    late.push_back(&sink);
  };
  const Runtime runtime({.threads = 2});
  {
    Loader loader(runtime,
                  Pipeline(source)
                      .map("bytes", Output{DataType::kI64, {}},
                           [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[0]; })
                      .batch(4),
                  {.epoch_count = 1, .read_timeout = std::chrono::hours(1)});
    loader.warm_up();
    for (bool begun = false; !begun;) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex);
      begun = late.size() == 8;
    }
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
  ASSERT_EQ(late.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(late[i]->allocate(0, Shape{4}), nullptr) << "no room: nothing more is called";
    } else {
      late[i]->fail(std::make_exception_ptr(std::runtime_error("late")));
    }
  }
}

TEST(ReadTimeoutTest, ManyReadsInTimeAreAsWithoutALimit) {
  const Runtime runtime({.threads = 3});
  std::vector<std::jthread> readers;
  std::mutex mutex;
  const auto source = std::make_shared<test::BytesSource>(Values(200, 8));
  source->finish = [&](Sink& sink) {
    const std::lock_guard lock(mutex);
    readers.emplace_back([&sink] { sink.done(); });
  };
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kI64, {}},
                                     [](View<const std::uint8_t> in, View<std::int64_t> out) { out[0] = in[1]; })
                                .batch(7);
  Loader loader(runtime, pipeline, {.epoch_count = 1, .read_timeout = std::chrono::minutes(1)});
  const Values all = flat_epoch(loader, "bytes");
  ASSERT_EQ(all.size(), 200u);
  for (std::int64_t i = 0; i < 200; ++i) EXPECT_EQ(all[i], (i + 1) % 256);
}

TEST(LastBatchPadTest, TheTailIsZeroedAndNotCounted) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(10).map("x", [](std::int64_t x) { return x + 1; }).batch(4, LastBatch::kPad),
                {.epoch_count = 3});
  EXPECT_EQ(loader.batches_per_epoch(), 3u);
  EXPECT_EQ(loader.dropped_per_epoch(), 0u);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::optional<Batch>> batches;
    while (std::optional<Batch> batch = loader.next()) batches.push_back(std::move(batch));
    ASSERT_EQ(batches.size(), 3u);
    const Batch& last = *batches.back();
    EXPECT_EQ(values(last), (Values{81, 91}));
    EXPECT_EQ(last.size(), 2u);
    EXPECT_EQ(last.capacity(), 4u);
    std::int64_t rows[4];
    std::memcpy(rows, last.data() + last.layout().fields[0].offset, sizeof rows);
    EXPECT_EQ(rows[2], 0);
    EXPECT_EQ(rows[3], 0);
    EXPECT_EQ(last.position(), (Position{static_cast<std::uint64_t>(epoch) + 1, 0}));
  }
}

}  // namespace
}  // namespace penstock
