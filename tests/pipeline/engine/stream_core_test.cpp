// Batches, errors, positions and endings of streams, over operators that answer from a list.
#include <penstock/pipeline/engine/stream_core.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/operator_support.h"
#include "../../support/pipeline_support.h"

namespace penstock::engine {
namespace {

using test::error_element;
using test::ListOperator;
using test::number_element;
using test::NumberSource;
using test::Pending;
using test::skipped_element;

using Values = std::vector<std::int64_t>;

/// A root that gives on the elements of a list, as sample of one source.
MakeRoot list_root(ListOperator::Items items, Pending pending = {}) {
  return
      [items = std::move(items), pending](const Plan& plan, StreamContext& context, bool) -> std::unique_ptr<Operator> {
        context.sources = {plan.source};
        return std::make_unique<ListOperator>(context, items, pending);
      };
}

/// One engine, ended with its scope.
class Stream {
 public:
  Stream(const Runtime& runtime, const Pipeline& pipeline, const MakeRoot& root, const LoaderOptions& options = {})
      : core_(std::make_shared<StreamCore>(runtime.state(), pipeline.shared_plan(), options, root)) {
    core_->start();
  }
  ~Stream() {
    if (core_) core_->shutdown();
  }
  Stream(Stream&&) = default;
  /// As Loader::next.
  std::optional<Batch> next() {
    NextResult result = *core_->take(true, {});
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.batch);
  }
  /// What `next` hands out up to `ends` ends of epochs: values, "error: ..." and "end".
  std::vector<std::string> log(std::size_t ends) {
    std::vector<std::string> all;
    while (ends > 0) {
      all.push_back(event());
      if (all.back() == "end") --ends;
    }
    return all;
  }
  std::string event() {
    try {
      const std::optional<Batch> batch = next();
      if (!batch) return "end";
      last_position = batch->position();
      std::string text = std::to_string(batch->epoch()) + "." + std::to_string(batch->index()) + ":";
      for (const std::int64_t x : test::values(*batch)) text += " " + std::to_string(x);
      for (std::size_t row = 0; row < batch->size(); ++row) text += " <" + std::to_string(batch->origin(row).index);
      return text;
    } catch (const SampleError& error) {
      return std::string("error ") + error.what();
    }
  }
  StreamCore& core() { return *core_; }
  std::optional<Position> last_position;

 private:
  std::shared_ptr<StreamCore> core_;
};

Pipeline unknown_count(std::uint64_t count) {
  return test::numbers(count).filter("x", [](std::int64_t) { return true; });
}

Runtime small_runtime(std::size_t threads = 2) {
  return Runtime({.threads = threads, .budget_bytes = std::uint64_t{1} << 20});
}

LoaderOptions epochs(std::uint64_t count) { return {.epoch_count = count, .max_sample_bytes = 4096}; }

TEST(StreamCoreTest, CutsAListIntoBatches) {
  for (const bool known : {true, false}) {
    const Pipeline pipeline = (known ? test::numbers(5) : unknown_count(5)).batch(2);
    const Runtime runtime = small_runtime();
    Stream stream(runtime, pipeline, list_root(ListOperator::numbers(5)), epochs(2));
    EXPECT_EQ(stream.log(2), (std::vector<std::string>{"0.0: 0 10 <0 <1", "0.1: 20 30 <2 <3", "0.2: 40 <4", "end",
                                                       "1.0: 0 10 <0 <1", "1.1: 20 30 <2 <3", "1.2: 40 <4", "end"}));
    EXPECT_EQ(stream.event(), "end") << "for ever";
    EXPECT_EQ(stream.core().batches_per_epoch(), known ? std::optional<std::uint64_t>(3) : std::nullopt);
    EXPECT_EQ(stream.core().report().samples, 10U);
    EXPECT_EQ(stream.core().report().batches, 6U);
  }
}

TEST(StreamCoreTest, LastBatchIsKeptDroppedPaddedOrRefused) {
  const Runtime runtime = small_runtime();
  const auto run = [&](LastBatch last, std::size_t count) {
    Stream stream(runtime, unknown_count(count).batch(3, last), list_root(ListOperator::numbers(count)), epochs(1));
    return stream.log(1);
  };
  EXPECT_EQ(run(LastBatch::kKeep, 4), (std::vector<std::string>{"0.0: 0 10 20 <0 <1 <2", "0.1: 30 <3", "end"}));
  EXPECT_EQ(run(LastBatch::kDrop, 4), (std::vector<std::string>{"0.0: 0 10 20 <0 <1 <2", "end"}));
  EXPECT_EQ(run(LastBatch::kDrop, 2), (std::vector<std::string>{"end"}));
  EXPECT_EQ(run(LastBatch::kPad, 4), (std::vector<std::string>{"0.0: 0 10 20 <0 <1 <2", "0.1: 30 <3", "end"}));
  EXPECT_EQ(run(LastBatch::kKeep, 0), (std::vector<std::string>{"end"}));
  EXPECT_EQ(run(LastBatch::kPad, 0), (std::vector<std::string>{"end"}));

  std::vector<Element> list;
  for (std::uint64_t i = 0; i < 6; ++i) list.push_back(number_element(static_cast<std::int64_t>(i) * 10, i));
  list[4] = skipped_element(4);
  list[5] = skipped_element(5);
  Stream refused(runtime, test::numbers(6).batch(3, LastBatch::kRefuse).on_error({.action = OnError::kSkip}),
                 list_root(ListOperator::items(std::move(list))), epochs(1));
  EXPECT_EQ(test::values(*refused.next()), (Values{0, 10, 20}));
  EXPECT_EQ(test::values(*refused.next()), (Values{30}));
  for (int i = 0; i < 2; ++i) {
    try {
      refused.next();
      FAIL();
    } catch (const InvalidArgument& error) {
      EXPECT_STREQ(error.what(),
                   "batch: 4 samples an epoch do not divide into batches of 3, 1 are left; keep or drop them "
                   "(LastBatch::kKeep, LastBatch::kDrop)");
    }
  }
}

TEST(StreamCoreTest, PaddedRowsAreZero) {
  const Runtime runtime = small_runtime();
  Stream stream(runtime, unknown_count(5).batch(3, LastBatch::kPad), list_root(ListOperator::numbers(5)), epochs(2));
  for (int epoch = 0; epoch < 2; ++epoch) {
    stream.next();
    const Batch last = *stream.next();
    EXPECT_EQ(last.size(), 2U);
    EXPECT_EQ(last.capacity(), 3U);
    std::int64_t rows[3];
    std::memcpy(rows, last.field_data(0), sizeof rows);
    EXPECT_EQ((Values{rows[0], rows[1], rows[2]}), (Values{30, 40, 0}));
    EXPECT_FALSE(stream.next());
  }
}

TEST(StreamCoreTest, CutsBatchesAtErrors) {
  std::vector<Element> list;
  for (std::uint64_t i = 0; i < 8; ++i) {
    list.push_back(i == 1 || i == 4 || i == 7 ? error_element(i) : number_element(static_cast<std::int64_t>(i), i));
  }
  const Runtime runtime = small_runtime();
  Stream stream(runtime, unknown_count(8).batch(4), list_root(ListOperator::items(std::move(list))), epochs(1));
  EXPECT_EQ(stream.log(1),
            (std::vector<std::string>{"0.0: 0 <0", "error read: sample 1, \"number 1\": bad bytes", "0.0: 2 3 <2 <3",
                                      "error read: sample 4, \"number 4\": bad bytes", "0.1: 5 6 <5 <6",
                                      "error read: sample 7, \"number 7\": bad bytes", "end"}));
}

TEST(StreamCoreTest, AnElementOfAnotherShapeIsAnErrorInItsPlace) {
  std::vector<Element> list;
  list.push_back(number_element(1, 0));
  list.push_back(number_element(0, 1));
  list.back().sample = Sample({"x"}, {Tensor::scalar<std::int32_t>(5)}, {0, 1});
  const Runtime runtime = small_runtime();
  const Pipeline pipeline = unknown_count(2).map("x", [](std::int64_t x) { return x; }).batch(2);
  Stream stream(runtime, pipeline, list_root(ListOperator::items(std::move(list))), epochs(1));
  const auto* const map = std::get_if<MapStage>(&pipeline.plan().stages[1]);
  EXPECT_EQ(stream.log(1),
            (std::vector<std::string>{
                "0.0: 1 <0",
                "error " + map->name + ": sample 1, \"number 1\": field \"x\" is i32 [], rows of the batch are i64 []",
                "end"}));
}

std::vector<Element> mixed_list(std::size_t count) {
  std::vector<Element> list;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 5 == 3) {
      list.push_back(error_element(i));
    } else if (i % 7 == 2) {
      list.push_back(skipped_element(i));
    } else {
      list.push_back(number_element(static_cast<std::int64_t>(i), i));
    }
  }
  return list;
}

TEST(StreamCoreTest, GoesOnFromThePositionOfEveryBatch) {
  const Runtime runtime = small_runtime();
  for (const bool known : {true, false}) {
    for (const std::size_t count : {0U, 1U, 8U, 21U}) {
      for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDrop, LastBatch::kPad}) {
        const ListOperator::Items items = ListOperator::items(mixed_list(count));
        // What the operators leave out is no part of a count that is known beforehand.
        std::size_t elements = 0;
        for (const Element& element : *items) elements += element.kind != Element::Kind::kSkipped ? 1 : 0;
        const Pipeline pipeline = (known ? test::numbers(elements) : unknown_count(elements)).batch(4, last);
        std::vector<std::string> all;
        std::vector<std::pair<std::size_t, Position>> positions;
        {
          Stream stream(runtime, pipeline, list_root(items), epochs(3));
          for (std::size_t ends = 0; ends < 3;) {
            stream.last_position.reset();
            all.push_back(stream.event());
            if (all.back() == "end") ++ends;
            if (stream.last_position) {
              EXPECT_EQ(stream.core().position(), *stream.last_position);
              positions.emplace_back(all.size(), *stream.last_position);
            }
          }
        }
        for (const auto& [at, position] : positions) {
          std::vector<std::string> rest(all.begin() + static_cast<std::ptrdiff_t>(at), all.end());
          LoaderOptions options = epochs(3);
          options.start = position;
          Stream stream(runtime, pipeline, list_root(items, {.always = true}), options);
          EXPECT_EQ(stream.core().position(), position);
          std::vector<std::string> found;
          while (found.size() < rest.size() + 2) {
            found.push_back(stream.event());
            if (found.back() == "end" && stream.core().position().epoch >= 3) break;
          }
          // After the last batch of an epoch the next thing may be the next epoch's first batch.
          const bool at_end =
              !rest.empty() && rest.front() == "end" && position.epoch < 2 + (position.slot == 0 ? 1U : 0U);
          if (at_end && (found.empty() || found.front() != "end" || rest.size() > 1)) {
            if (found != rest) rest.erase(rest.begin());
          }
          EXPECT_EQ(found, rest) << "from event " << at << " of " << count << " slot " << position.slot;
        }
      }
    }
  }
}

TEST(StreamCoreTest, LastPositionOfAnEpochIsTheNextEpoch) {
  const Runtime runtime = small_runtime();
  for (const std::size_t count : {4U, 5U}) {
    Stream stream(runtime, unknown_count(count).batch(2), list_root(ListOperator::numbers(count)), epochs(2));
    std::vector<Position> positions;
    while (const std::optional<Batch> batch = stream.next()) positions.push_back(batch->position());
    ASSERT_EQ(positions.size(), (count + 1) / 2);
    EXPECT_EQ(positions.front().epoch, 0U);
    EXPECT_EQ(positions.front().slot, 2U);
    ASSERT_TRUE(positions.front().cursor);
    EXPECT_EQ(positions.back(), (Position{1, 0}));
  }
}

TEST(StreamCoreTest, RefusesAStartThatIsNone) {
  const Runtime runtime = small_runtime();
  const Pipeline pipeline = unknown_count(9).batch(2);
  const auto refusal = [&](const Position& start) -> std::string {
    LoaderOptions options = epochs(2);
    options.start = start;
    try {
      const Stream stream(runtime, pipeline, list_root(ListOperator::numbers(9)), options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      refusal({0, 4}),
      "loader: the start, epoch 0 slot 4, has no cursor: where the stages of this plan stand cannot be worked out "
      "from a slot; start with Batch::position() or what read_state has read");
  EXPECT_EQ(refusal({3, 0}), "loader: the start, epoch 3 slot 0, lies beyond the end: there are 2 epochs");
  const auto cursor = [](std::vector<std::uint64_t> numbers, std::string unsaved = {}) {
    return std::make_shared<const Cursor>(Cursor{std::move(numbers), {}, std::move(unsaved)});
  };
  EXPECT_EQ(refusal({0, 4, cursor({0, 2, 4, 0, 4}, "scan")}),
            "loader: the start, epoch 0 slot 4: the state of \"scan\" has not been saved");
  EXPECT_EQ(refusal({0, 4, cursor({0, 2, 4, 0})}), "state: it belongs to another plan: numbers are missing");
  EXPECT_EQ(refusal({0, 4, cursor({0, 2, 4, 0, 4, 7})}),
            "loader: the start's cursor is longer than this plan's; it belongs to another plan");
  EXPECT_EQ(refusal({0, 4, cursor({0, 2, 3, 0, 4})}),
            "loader: the start's slot, 4, is not that of its cursor; it belongs to another plan");
  EXPECT_EQ(refusal({0, 4, cursor({0, 2, 4, 0, 4})}), "");
  EXPECT_EQ(runtime.in_flight_bytes(), 0U);
}

TEST(StreamCoreTest, PendingAnywhereChangesNothing) {
  const ListOperator::Items items = ListOperator::items(mixed_list(17));
  std::vector<std::string> expected;
  for (const std::size_t threads : {1U, 3U}) {
    const Runtime runtime = small_runtime(threads);
    const auto run = [&](const Pending& pending) {
      Stream stream(runtime, unknown_count(17).batch(3), list_root(items, pending), epochs(2));
      return stream.log(2);
    };
    if (expected.empty()) expected = run({});
    EXPECT_EQ(run({.always = true}), expected);
    for (std::size_t at = 0; at <= 17; ++at) EXPECT_EQ(run({.before = {at}}), expected) << at;
  }
}

TEST(StreamCoreTest, SkippedSamplesBecomeFaultsOfTheirBatches) {
  std::vector<Element> list;
  for (std::uint64_t i = 0; i < 7; ++i) {
    // An error that no stage has left out is left out at the end.
    if (i == 1 || i == 6) {
      list.push_back(skipped_element(i));
    } else if (i == 3) {
      list.push_back(error_element(i));
    } else {
      list.push_back(number_element(static_cast<std::int64_t>(i), i));
    }
  }
  const Runtime runtime = small_runtime();
  const Pipeline pipeline = test::numbers(7).batch(2).on_error({.action = OnError::kSkip});
  Stream stream(runtime, pipeline, list_root(ListOperator::items(std::move(list))), epochs(1));
  EXPECT_EQ(stream.core().batches_per_epoch(), std::nullopt);
  EXPECT_EQ(stream.event(), "0.0: 0 2 <0 <2");
  EXPECT_EQ(stream.core().faults().size(), 1U);
  EXPECT_EQ(stream.event(), "0.1: 4 5 <4 <5");
  EXPECT_EQ(stream.core().faults().size(), 2U);
  EXPECT_EQ(stream.event(), "end");
  const std::vector<SampleFault> faults = stream.core().faults();
  ASSERT_EQ(faults.size(), 3U);
  const auto fault = [](std::uint64_t batch, std::uint64_t index) {
    return SampleFault{0,           batch, ErrorKind::kCorrupt, "read", index, "number " + std::to_string(index),
                       "bad bytes", {}};
  };
  EXPECT_EQ(faults[0], fault(0, 1));
  EXPECT_EQ(faults[1], fault(1, 3));
  EXPECT_EQ(faults[2], fault(2, 6));
  EXPECT_EQ(stream.core().report().skipped, 3U);
  std::ostringstream out;
  write_faults(out, faults);
  EXPECT_EQ(
      out.str().substr(0, out.str().find('\n')),
      R"({"epoch":0,"batch":0,"kind":"corrupt","stage":"read","index":1,"source":"number 1","message":"bad bytes",)"
      R"("replacement":null})");
}

TEST(StreamCoreTest, FaultsAreTheSameAfterResume) {
  const ListOperator::Items items = ListOperator::items(mixed_list(30));
  const Runtime runtime = small_runtime();
  const Pipeline pipeline = test::numbers(30).batch(3).on_error({.action = OnError::kSkip});
  Stream whole(runtime, pipeline, list_root(items), epochs(1));
  std::vector<Position> positions;
  std::vector<std::size_t> before;
  while (const std::optional<Batch> batch = whole.next()) {
    positions.push_back(batch->position());
    before.push_back(whole.core().faults().size());
  }
  const std::vector<SampleFault> all = whole.core().faults();
  ASSERT_EQ(all.size(), 30U - whole.core().report().samples);
  for (std::size_t i = 0; i + 1 < positions.size(); ++i) {
    LoaderOptions options = epochs(1);
    options.start = positions[i];
    Stream rest(runtime, pipeline, list_root(items), options);
    while (rest.next()) {
    }
    EXPECT_EQ(rest.core().faults(),
              std::vector<SampleFault>(all.begin() + static_cast<std::ptrdiff_t>(before[i]), all.end()));
  }
}

TEST(StreamCoreTest, TheLimitIsCountedInTheOrderOfDelivery) {
  std::vector<Element> list;
  for (std::uint64_t i = 0; i < 9; ++i) {
    list.push_back(i % 3 == 1 ? skipped_element(i) : number_element(static_cast<std::int64_t>(i), i));
  }
  const Runtime runtime = small_runtime();
  const Pipeline pipeline = test::numbers(9).batch(4).on_error({.action = OnError::kSkip, .limit = 2});
  Stream stream(runtime, pipeline, list_root(ListOperator::items(std::move(list))), epochs(1));
  EXPECT_EQ(stream.event(), "0.0: 0 2 3 5 <0 <2 <3 <5");
  EXPECT_EQ(stream.event(), "0.1: 6 <6");
  for (int i = 0; i < 2; ++i) {
    try {
      stream.next();
      FAIL();
    } catch (const ErrorLimitReached& limit) {
      EXPECT_STREQ(
          limit.what(),
          "on_error: 2 failed samples are allowed, and one more failed; read: sample 7, \"number 7\": bad bytes");
      try {
        std::rethrow_if_nested(limit);
        FAIL();
      } catch (const SampleError& sample) {
        EXPECT_EQ(sample.index(), 7U);
        EXPECT_EQ(sample.kind(), ErrorKind::kCorrupt);
      }
    }
  }
  EXPECT_EQ(stream.core().faults().size(), 2U);
}

TEST(StreamCoreTest, RanksThatSkipHaveAsManyBatches) {
  const Runtime runtime = small_runtime();
  for (const LastBatch last : {LastBatch::kKeep, LastBatch::kPad, LastBatch::kDrop}) {
    // Rank 1 of 2 of 9 samples has 4; the longest rank has 5 and so 3 batches (2 where the last is dropped).
    const std::uint64_t batches = last == LastBatch::kDrop ? 2 : 3;
    const Pipeline pipeline = test::numbers(9).shard(1, 2).batch(2, last).on_error({.action = OnError::kSkip});
    std::vector<Element> list;
    for (std::uint64_t i = 0; i < 4; ++i) {
      list.push_back(i == 2 ? skipped_element(i) : number_element(static_cast<std::int64_t>(i) + 1, i));
    }
    const ListOperator::Items items = ListOperator::items(std::move(list));
    Stream stream(runtime, pipeline, list_root(items), epochs(2));
    EXPECT_EQ(stream.core().batches_per_epoch(), batches);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::size_t> sizes;
      Position position;
      while (const std::optional<Batch> batch = stream.next()) {
        EXPECT_EQ(batch->index(), sizes.size());
        sizes.push_back(batch->size());
        position = batch->position();
        if (batch->size() < 2 && (batch->size() == 0 || last != LastBatch::kKeep)) {
          std::int64_t rows[2];
          std::memcpy(rows, batch->field_data(0), sizeof rows);
          EXPECT_EQ((Values{rows[0], rows[1]}), (Values{batch->size() == 0 ? 0 : 4, 0}));
        }
        if (sizes.size() == 2 && batches == 3 && epoch == 0) {
          LoaderOptions options = epochs(2);
          options.start = position;
          Stream rest(runtime, pipeline, list_root(items), options);
          const std::optional<Batch> zeros = rest.next();
          ASSERT_TRUE(zeros);
          EXPECT_EQ(zeros->size(), 0U);
          EXPECT_EQ(zeros->index(), 2U);
          EXPECT_FALSE(rest.next());
        }
      }
      EXPECT_EQ(sizes, batches == 3 ? (std::vector<std::size_t>{2, 1, 0}) : (std::vector<std::size_t>{2, 1}));
      EXPECT_EQ(position, (Position{epoch + 1, 0}));
    }
  }
}

/// A pipeline whose last stage makes whole batches of field "x", i64 [?, ?].
Pipeline whole_batches() {
  StreamStage stage;
  stage.name = "bucket";
  stage.text = "bucket";
  stage.batch_depth = 1;
  stage.size = [](const std::vector<std::optional<std::uint64_t>>&) { return std::nullopt; };
  return test::numbers(4).with(
      std::make_shared<const StreamStage>(std::move(stage)),
      Schema({{"x", DataType::kI64, {Shape::kUnknown, Shape::kUnknown}}, {"n", DataType::kU8, {Shape::kUnknown}}}));
}

Element whole_batch(std::int64_t rows, std::int64_t columns, std::int64_t second_rows, std::uint64_t first_index) {
  Element element;
  std::vector<std::int64_t> x(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int64_t>(first_index * 100 + i);
  std::vector<std::uint8_t> n(static_cast<std::size_t>(second_rows), std::uint8_t{7});
  element.sample = Sample(
      {"x", "n"}, {Tensor::copy_of<std::int64_t>(x, {rows, columns}), Tensor::copy_of<std::uint8_t>(n, {second_rows})});
  for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(rows); ++r) {
    element.row_origins.push_back({{0, first_index + r}, {0, first_index + r + 1}});
    element.origins.push_back({0, first_index + r});
  }
  return element;
}

TEST(StreamCoreTest, WholeBatchesLieInOneBlockEach) {
  std::vector<Element> list;
  list.push_back(whole_batch(3, 2, 3, 0));
  list.push_back(whole_batch(2, 5, 1, 10));
  list.push_back(error_element(12));
  list.push_back(whole_batch(1, 1, 1, 20));
  const Runtime runtime = small_runtime();
  const ListOperator::Items items = ListOperator::items(std::move(list));
  Stream stream(runtime, whole_batches(), list_root(items), epochs(2));
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::optional<Batch> first = stream.next();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->size(), 3U);
    EXPECT_EQ(first->layout().size_bytes, 128U);
    EXPECT_EQ(first->layout().fields[1].offset, 64U);
    const auto x = first->view<std::int64_t>("x");
    EXPECT_EQ(x.shape(), (Shape{3, 2}));
    EXPECT_EQ(Values(x.span().begin(), x.span().end()), (Values{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(first->view<std::uint8_t>("n")[2], 7);
    EXPECT_EQ(first->origins(1), (std::vector<Origin>{{0, 1}, {0, 2}}));
    EXPECT_EQ(first->describe(2), "number 2");
    EXPECT_EQ(first->position().slot, 3U);
    try {
      stream.next();
      FAIL();
    } catch (const SampleError& error) {
      EXPECT_STREQ(
          error.what(),
          "bucket: sample 10, \"number 10\": field \"n\" is u8 [1], but field \"x\" has 2 rows: all fields of a "
          "batch have the same leading dimension");
    }
    EXPECT_EQ(stream.event(), "error read: sample 12, \"number 12\": bad bytes");
    const std::optional<Batch> last = stream.next();
    ASSERT_TRUE(last);
    EXPECT_EQ(last->index(), 3U);
    EXPECT_EQ(last->view<std::int64_t>("x")[0], 2000);
    EXPECT_EQ(last->position(), (Position{static_cast<std::uint64_t>(epoch) + 1, 0}));
    EXPECT_FALSE(stream.next());

    LoaderOptions options = epochs(1);
    options.start = first->position();
    Stream rest(runtime, whole_batches(), list_root(items), options);
    if (epoch == 0) {
      EXPECT_THROW(rest.next(), SampleError);
      EXPECT_THROW(rest.next(), SampleError);
      EXPECT_EQ(rest.next()->index(), 3U);
    }
    if (epoch == 0) {
      EXPECT_FALSE(rest.next());
    }
  }
}

TEST(StreamCoreTest, WholeBatchesAreLimitedLikeSamples) {
  std::vector<Element> list;
  list.push_back(whole_batch(10, 60, 10, 0));
  const Runtime runtime = small_runtime();
  LoaderOptions options = epochs(1);
  Stream stream(runtime, whole_batches(), list_root(ListOperator::items(std::move(list))), options);
  try {
    stream.next();
    FAIL();
  } catch (const SampleError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTooLarge);
    EXPECT_STREQ(error.what(),
                 "bucket: sample 0, \"number 0\": the batch takes 4864 bytes, the most allowed is 4224 "
                 "(LoaderOptions::max_sample_bytes)");
  }
  options.memory = std::make_shared<BatchBlocks>(BudgetShare::reserve(runtime.state().budget(), 8192, "test"), 2);
  try {
    const Stream refused(runtime, whole_batches(), list_root(ListOperator::numbers(0)), options);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "loader: the batches that \"bucket\" makes are not all of one layout, so they cannot be written into "
                 "LoaderOptions::memory; leave it empty");
  }
}

TEST(StreamCoreTest, WritesIntoTheUsersMemory) {
  const Runtime runtime = small_runtime();
  LoaderOptions options = epochs(3);
  const auto memory = std::make_shared<BatchBlocks>(BudgetShare::reserve(runtime.state().budget(), 256, "test"), 2);
  options.memory = memory;
  Stream stream(runtime, unknown_count(5).batch(2), list_root(ListOperator::numbers(5)), options);
  std::set<const std::byte*> places;
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const std::optional<Batch> batch = stream.next()) places.insert(batch->data());
  }
  EXPECT_GE(places.size(), 1U);
  EXPECT_LE(places.size(), 2U);
}

TEST(StreamCoreTest, SaysWhenTheCallerHoldsAllBatches) {
  const Runtime runtime = small_runtime();
  Stream stream(runtime, unknown_count(40).batch(2), list_root(ListOperator::numbers(40)), epochs(1));
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(*stream.next());
  for (int i = 0; i < 2; ++i) {
    try {
      stream.next();
      FAIL();
    } catch (const BudgetHeldByCaller& error) {
      EXPECT_STREQ(error.what(),
                   "next: all 3 batches of this loader are held by the caller (3 x 64 = 192 bytes), none is left to be "
                   "filled; let one go, or ask for more with prefetch(2)");
    }
  }
  held.erase(held.begin());
  EXPECT_EQ(test::values(*stream.next()), (Values{60, 70}));
  held.clear();
  std::size_t more = 0;
  while (stream.next()) ++more;
  EXPECT_EQ(more, 16U);
}

TEST(StreamCoreTest, MoreBatchesAheadCanBeAskedForWhileItRuns) {
  const Runtime runtime = small_runtime();
  Stream stream(runtime, unknown_count(40).batch(2), list_root(ListOperator::numbers(40)), epochs(1));
  EXPECT_EQ(stream.core().knobs().batches_ahead, 2U);
  stream.core().turn({.batches_ahead = 4});
  EXPECT_EQ(stream.core().knobs().batches_ahead, 4U);
  std::vector<Batch> held;
  for (int i = 0; i < 5; ++i) held.push_back(*stream.next());
  EXPECT_THROW(stream.next(), BudgetHeldByCaller);
  held.clear();
  stream.core().turn({.batches_ahead = 1});
  std::size_t more = 0;
  while (stream.next()) ++more;
  EXPECT_EQ(more, 15U);
  try {
    stream.core().turn({.batches_ahead = 1'000'000});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("999996 more open batches, 999996 x 64"), std::string::npos)
        << error.what();
  }
}

TEST(StreamCoreTest, RefusesATimeOutThatItCannotKeep) {
  const Runtime runtime = small_runtime();
  LoaderOptions options = epochs(1);
  options.read_timeout = std::chrono::milliseconds(5);
  std::string refusal;
  try {
    const Stream stream(runtime, unknown_count(9).batch(2), list_root(ListOperator::numbers(9)), options);
  } catch (const InvalidArgument& error) {
    refusal = error.what();
  }
  EXPECT_EQ(refusal,
            "loader: LoaderOptions::read_timeout needs a flat plan: one source with a size, stages of order, maps, one "
            "batch");
}

TEST(StreamCoreTest, RefusesABudgetThatCannotHoldItsShares) {
  const Runtime runtime({.threads = 1, .budget_bytes = 1000});
  const auto refusal = [&](const Pipeline& pipeline, const LoaderOptions& options) -> std::string {
    try {
      const Stream stream(runtime, pipeline, list_root(ListOperator::numbers(1)), options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      refusal(unknown_count(9).batch(100), epochs(1)),
      "loader: the budget of 1000 bytes is too small: this loader needs 2496 bytes (2 open batches and one in the "
      "caller's hands, 3 x 832); give the runtime at least 2496 bytes");
  const std::string whole = refusal(whole_batches(), epochs(1));
  EXPECT_NE(
      whole.find("needs 12672 bytes (2 open batches and one in the caller's hands, 3 x 4224 (batches of \"bucket\" "
                 "may be as large as LoaderOptions::max_sample_bytes))"),
      std::string::npos)
      << whole;
  EXPECT_EQ(refusal(unknown_count(9).batch(10), epochs(1)), "");
}

/// Throws from `next` after so many elements.
class ThrowingOperator final : public Operator {
 public:
  explicit ThrowingOperator(std::uint64_t good) : good_(good) {}
  void start(const Pass&) override { at_ = 0; }
  Pull next(Element& out) override {
    if (at_ == good_) throw Error("window: too much is kept");
    out = number_element(static_cast<std::int64_t>(at_), at_);
    ++at_;
    return Pull::kElement;
  }
  void save(Cursor& cursor) const override { cursor.numbers.push_back(at_); }
  void restore(const Pass&, CursorReader& cursor) override { at_ = cursor.number(); }

 private:
  std::uint64_t good_;
  std::uint64_t at_ = 0;
};

TEST(StreamCoreTest, WhatAnOperatorThrowsEndsTheStreamInItsPlace) {
  const Runtime runtime = small_runtime();
  Stream stream(
      runtime, unknown_count(9).batch(2),
      [](const Plan& plan, StreamContext& context, bool) -> std::unique_ptr<Operator> {
        context.sources = {plan.source};
        return std::make_unique<ThrowingOperator>(3);
      },
      epochs(1));
  EXPECT_EQ(stream.event(), "0.0: 0 1 <0 <1");
  EXPECT_EQ(stream.event(), "0.1: 2 <2");
  for (int i = 0; i < 3; ++i) {
    try {
      stream.next();
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "window: too much is kept");
    }
  }
}

/// Answers kPending until another thread has called `wake` for this answer; runs items on the workers besides.
class RemoteOperator final : public Operator {
 public:
  explicit RemoteOperator(StreamContext& context) : shared_(std::make_shared<Shared>()) {
    shared_->wake = context.wake;
    shared_->submit = context.submit;
    shared_->finished = context.finished;
  }
  void start(const Pass&) override { at_ = 0; }
  Pull next(Element& out) override {
    if (at_ == 1'000) return Pull::kEnd;
    if (shared_->ready.load(std::memory_order_acquire) == at_) {
      if (!asked_) {
        asked_ = true;
        auto* const item = new Item(shared_);
        if (!shared_->submit(*item)) delete item;
      }
      return Pull::kPending;
    }
    asked_ = false;
    out = number_element(static_cast<std::int64_t>(at_), at_);
    ++at_;
    return Pull::kElement;
  }
  void save(Cursor& cursor) const override { cursor.numbers.push_back(at_); }
  void restore(const Pass&, CursorReader& cursor) override { at_ = cursor.number(); }

 private:
  struct Shared {
    std::function<void()> wake;
    std::function<bool(WorkItem&)> submit;
    std::function<void()> finished;
    std::atomic<std::uint64_t> ready{0};
  };
  struct Item final : WorkItem {
    explicit Item(std::shared_ptr<Shared> of) : shared(std::move(of)) {}
    void run() noexcept override {
      const std::shared_ptr<Shared> kept = shared;
      kept->ready.fetch_add(1, std::memory_order_release);
      delete this;
      kept->wake();
      kept->finished();
    }
    std::shared_ptr<Shared> shared;
  };
  std::shared_ptr<Shared> shared_;
  std::uint64_t at_ = 0;
  bool asked_ = false;
};

MakeRoot remote_root() {
  return [](const Plan& plan, StreamContext& context, bool) -> std::unique_ptr<Operator> {
    context.sources = {plan.source};
    return std::make_unique<RemoteOperator>(context);
  };
}

TEST(StreamCoreTest, NoWakeUpIsLost) {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    const Runtime runtime = small_runtime(threads);
    Stream stream(runtime, unknown_count(1'000).batch(7), remote_root(), epochs(1));
    std::int64_t expected = 0;
    while (const std::optional<Batch> batch = stream.next()) {
      for (const std::int64_t x : test::values(*batch)) EXPECT_EQ(x, expected++);
    }
    EXPECT_EQ(expected, 1'000);
  }
}

TEST(StreamCoreTest, EndsAtAnyMoment) {
  std::mt19937 random(7);
  const Runtime runtime = small_runtime(2);
  for (int i = 0; i < 200; ++i) {
    std::optional<Batch> kept;
    {
      Stream stream(runtime, unknown_count(1'000).batch(3), remote_root());
      const std::size_t batches = random() % 12;
      if (batches == 0) stream.core().pump();
      for (std::size_t b = 0; b < batches; ++b) kept = stream.next();
      if (random() % 4 == 0) {
        std::thread stopper([&] { stream.core().stop(); });
        try {
          while (stream.next()) {
          }
        } catch (const Stopped&) {
        }
        stopper.join();
        EXPECT_THROW(stream.next(), Stopped);
      }
    }
    if (kept) {
      EXPECT_EQ(test::values(*kept)[0] % 3, 0);
    }
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0U);
}

TEST(StreamCoreTest, ADestroyedStreamOnTheOnlyWorkerDoesNotWaitForItself) {
  const Runtime runtime = small_runtime(1);
  struct Destroyer final : WorkItem {
    void run() noexcept override {
      stream.reset();
      gone = true;
      gone.notify_all();
    }
    std::optional<Stream> stream;
    std::atomic<bool> gone{false};
  };
  for (int i = 0; i < 20; ++i) {
    Stream outer(runtime, unknown_count(1'000).batch(3), remote_root());
    Destroyer destroyer;
    destroyer.stream.emplace(runtime, unknown_count(1'000).batch(3), remote_root());
    destroyer.stream->core().pump();
    // Runs on the worker, on the lane of another stream.
    runtime.state().submit(outer.core(), destroyer);
    destroyer.gone.wait(false);
  }
}

TEST(StreamCoreTest, TheNextEpochBeginsBeforeTheEndIsTaken) {
  const Runtime runtime = small_runtime(2);
  Stream stream(runtime, unknown_count(4).batch(2), list_root(ListOperator::numbers(4)), epochs(2));
  EXPECT_EQ(stream.event(), "0.0: 0 10 <0 <1");
  const std::optional<Batch> last = stream.next();
  ASSERT_TRUE(last);
  EXPECT_EQ(test::values(*last), (Values{20, 30}));
  // The other two blocks fill with the next epoch, which nobody has asked for yet.
  while (runtime.in_flight_bytes() < 3 * 64) std::this_thread::yield();
  EXPECT_EQ(stream.event(), "end");
  EXPECT_EQ(stream.event(), "1.0: 0 10 <0 <1");
}

TEST(StreamTurnTest, RunsAgainWhenWokenWhileRunning) {
  const Runtime runtime = small_runtime(2);
  struct Lane final : WorkLane {
    Lane() : WorkLane(0) {}
    void room_freed() override {}
    void trim() override {}
  };
  const auto lane = std::make_shared<Lane>();
  runtime.state().add(lane);
  std::atomic<int> runs{0};
  std::shared_ptr<StreamTurn> turn;
  turn = std::make_shared<StreamTurn>(runtime.state(), *lane, [&] {
    const int run = ++runs;
    if (run == 1) turn->wake();
    runs.notify_all();
    return run == 2;
  });
  turn->wake();
  for (int seen = runs; seen < 3; seen = runs) runs.wait(seen);
  turn->stop();
  turn->wait();
  turn->wake();
  EXPECT_EQ(runs, 3);
  runtime.state().remove(*lane);
}

TEST(FaultLogTest, CountsGoOnWhenTheListIsFull) {
  FaultLog log;
  SampleFault fault;
  for (std::size_t i = 0; i < FaultLog::kKept + 5; ++i) {
    fault.index = i;
    if (i == 7) fault.replacement = 3;
    log.add(fault);
    fault.replacement.reset();
  }
  EXPECT_EQ(log.get().size(), FaultLog::kKept);
  EXPECT_EQ(log.get().back().index, FaultLog::kKept - 1);
  EXPECT_EQ(log.skipped(), FaultLog::kKept + 4);
  EXPECT_EQ(log.replaced(), 1U);
}

}  // namespace
}  // namespace penstock::engine
