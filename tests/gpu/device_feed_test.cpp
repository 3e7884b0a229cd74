#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/device_feed.h>
#include <penstock/pipeline/pipeline.h>

#include "gpu/devices_under_test.h"
#include "support/lazy_device.h"

namespace penstock::gpu {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::size_t kPixels = 48;

std::uint8_t pixel(std::uint64_t sample, std::size_t i) { return static_cast<std::uint8_t>(sample * 31 + i * 7 + 1); }
std::int64_t label(std::uint64_t sample) { return static_cast<std::int64_t>(sample * 1000 + 1); }

// Samples whose every byte says which sample it is; one of them may be bad.
class NumberedSource final : public Source {
 public:
  explicit NumberedSource(std::uint64_t count, std::uint64_t bad = kNone) : count_(count), bad_(bad) {}
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return count_; }
  std::string describe(std::uint64_t index) const override { return "sample/" + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    if (index == bad_) {
      sink.fail(std::make_exception_ptr(DataError(ErrorKind::kCorrupt, "planted")));
      return;
    }
    std::byte* pixels = sink.allocate(0, schema_[0].shape);
    if (pixels == nullptr) return;
    for (std::size_t i = 0; i < kPixels; ++i) pixels[i] = std::byte{pixel(index, i)};
    std::byte* number = sink.allocate(1, schema_[1].shape);
    if (number == nullptr) return;
    const std::int64_t value = label(index);
    std::memcpy(number, &value, sizeof value);
    sink.done();
  }
  std::string fingerprint(std::uint64_t index) const override { return std::to_string(index); }

 private:
  const Schema schema_{{{"image", DataType::kU8, Shape{4, 4, 3}}, {"label", DataType::kI64, Shape{}}}};
  const std::uint64_t count_;
  const std::uint64_t bad_;
};

struct FeedOptions {
  std::uint64_t samples = 20;
  std::size_t batch = 4;
  std::size_t depth = 2;
  std::size_t pinned_depth = 3;
  std::optional<std::uint64_t> epochs = 1;
  LastBatch last = LastBatch::kKeep;
  std::uint64_t bad = kNone;
};

// A feed with its memory, and a consumer whose reads run on a stream of its own and are looked at only at the end.
class Rig {
 public:
  Rig(std::shared_ptr<Device> device, const FeedOptions& options)
      : device_(std::move(device)),
        pipeline_(pipeline(options)),
        layout_(BatchLayout::of(pipeline_.schema(), options.batch)) {
    PhaseNeed phase;
    phase.name = "train";
    phase.batch = options.batch;
    phase.depth = options.depth;
    phase.pinned_depth = options.pinned_depth;
    phase.bytes = [this](std::size_t batch) {
      return PhaseBytes{0, BatchLayout::of(pipeline_.schema(), batch).size_bytes};
    };
    JobNeed job;
    job.phases = {phase};
    memory_ = take_memory(device_, accounts_, job);
    compute_ = device_->create_stream("compute");
    feed_.emplace(device_, feed_memory(), loader(options));
  }

  static Pipeline pipeline(const FeedOptions& options) {
    return Pipeline(std::make_shared<NumberedSource>(options.samples, options.bad)).batch(options.batch, options.last);
  }
  Loader loader(const FeedOptions& options) {
    LoaderOptions loader_options = small_samples();
    loader_options.epoch_count = options.epochs;
    loader_options.memory = make_pinned_ring(feed_memory());
    return Loader(test::small_runtime(), pipeline_, loader_options);
  }
  static LoaderOptions small_samples() {
    LoaderOptions options;
    options.max_sample_bytes = 4096;
    return options;
  }

  FeedMemory& feed_memory() { return memory_.feeds.at("train"); }
  DeviceFeed& feed() { return *feed_; }
  Device& device() { return *device_; }
  Stream compute() const { return compute_; }
  const BatchLayout& layout() const { return layout_; }
  void end_feed() { feed_.reset(); }
  DeviceFeed take_feed() {
    DeviceFeed feed = std::move(*feed_);
    feed_.reset();
    return feed;
  }

  // Enqueues a copy of the whole slot to the host, behind the batch's arrival. Looked at after `finish`.
  void read(const DeviceBatch& batch) {
    reads_.emplace_back(device_, accounts_.account("host/pinned/reads"), layout_.size_bytes, "read");
    batch.wait_on(compute_);
    device_->copy_to_host(reads_.back().data(), batch.field(0), layout_.size_bytes, compute_);
  }
  void finish() { device_->synchronize(compute_); }
  // Sample of each row of read number `index`, after a check of all its bytes; -1 for a row of zeros.
  std::vector<std::int64_t> rows(std::size_t index) const {
    std::vector<std::int64_t> samples;
    for (std::size_t row = 0; row < layout_.batch_size; ++row) samples.push_back(row_of(reads_.at(index).data(), row));
    return samples;
  }
  std::size_t read_count() const { return reads_.size(); }

 private:
  std::int64_t row_of(const std::byte* block, std::size_t row) const {
    const BatchField& image = layout_.fields[0];
    const BatchField& number = layout_.fields[1];
    std::int64_t value = 0;
    std::memcpy(&value, block + number.offset + row * number.row_stride, sizeof value);
    const std::byte* pixels = block + image.offset + row * image.row_stride;
    const std::uint64_t sample = value == 0 ? 0 : static_cast<std::uint64_t>((value - 1) / 1000);
    for (std::size_t i = 0; i < kPixels; ++i) {
      const std::uint8_t expected = value == 0 ? std::uint8_t{0} : pixel(sample, i);
      if (static_cast<std::uint8_t>(pixels[i]) != expected) return -1000;
    }
    return value == 0 ? -1 : static_cast<std::int64_t>(sample);
  }

  std::shared_ptr<Device> device_;
  MemoryAccounts accounts_;
  Pipeline pipeline_;
  BatchLayout layout_;
  JobMemory memory_;
  Stream compute_;
  std::vector<PinnedSlab> reads_;
  std::optional<DeviceFeed> feed_;
};

// The devices that make a missing edge visible, and the one that people use.
enum class Schedule { kHost, kLazy, kFavourCopy, kFavourCompute };
std::shared_ptr<Device> make_device(Schedule schedule) {
  if (schedule == Schedule::kHost) return make_host_device(test::small_runtime(), 64 * kMiB);
  auto device = std::make_shared<test::LazyDevice>(test::small_runtime(), 64 * kMiB);
  if (schedule == Schedule::kFavourCopy) device->favour("feed copy");
  if (schedule == Schedule::kFavourCompute) device->favour("compute");
  return device;
}

std::string name_of(Schedule schedule) {
  const char* const names[] = {"Host", "Lazy", "FavourCopy", "FavourCompute"};
  return names[static_cast<int>(schedule)];
}

class DeviceFeedTest : public testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(All, DeviceFeedTest,
                         testing::Values(Schedule::kHost, Schedule::kLazy, Schedule::kFavourCopy,
                                         Schedule::kFavourCompute),
                         [](const auto& tested) { return name_of(tested.param); });

std::vector<std::int64_t> row_numbers(std::uint64_t begin, std::uint64_t end, std::size_t batch) {
  std::vector<std::int64_t> rows;
  for (std::uint64_t i = begin; i < end; ++i) rows.push_back(static_cast<std::int64_t>(i));
  rows.resize(batch, -1);
  return rows;
}

TEST_P(DeviceFeedTest, DeliversEverySampleInOrderAtAnySizeAndDepth) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    FeedOptions options;
    options.samples = 1 + random() % 60;
    options.batch = 1 + random() % 9;
    options.depth = 1 + random() % 4;
    options.pinned_depth = 2 + random() % 3;
    options.epochs = 1 + random() % 3;
    SCOPED_TRACE(testing::Message() << options.samples << " samples, batch " << options.batch << ", depth "
                                    << options.depth << ", pinned depth " << options.pinned_depth << ", epochs "
                                    << *options.epochs);
    Rig rig(make_device(GetParam()), options);
    for (std::uint64_t epoch = 0; epoch < *options.epochs; ++epoch) {
      std::uint64_t index = 0;
      while (std::optional<DeviceBatch> batch = rig.feed().next()) {
        EXPECT_EQ(batch->epoch(), epoch);
        EXPECT_EQ(batch->index(), index++);
        rig.read(*batch);
        batch->release(rig.compute());
      }
    }
    EXPECT_FALSE(rig.feed().next());
    EXPECT_FALSE(rig.feed().next());
    rig.finish();
    std::size_t read = 0;
    for (std::uint64_t epoch = 0; epoch < *options.epochs; ++epoch) {
      for (std::uint64_t begin = 0; begin < options.samples; begin += options.batch) {
        const std::uint64_t end = std::min<std::uint64_t>(begin + options.batch, options.samples);
        ASSERT_EQ(rig.rows(read++), row_numbers(begin, end, options.batch));
      }
    }
    EXPECT_EQ(read, rig.read_count());
  }
}

TEST_P(DeviceFeedTest, LeasesThatGoOutOfScopeAreKeptUntilTheirReadersAreDone) {
  FeedOptions options;
  options.depth = 1;
  options.samples = 40;
  Rig rig(make_device(GetParam()), options);
  const Stream second = rig.device().create_stream("second");
  while (std::optional<DeviceBatch> batch = rig.feed().next()) {
    rig.read(*batch);
    batch->wait_on(second);
    batch->wait_on(rig.compute());
  }
  rig.finish();
  for (std::size_t i = 0; i < 10; ++i) ASSERT_EQ(rig.rows(i), row_numbers(i * 4, i * 4 + 4, 4));
}

TEST_P(DeviceFeedTest, ShortLastBatchHasATailOfZeros) {
  FeedOptions options;
  options.samples = 10;
  options.depth = 1;
  options.epochs = 2;
  Rig rig(make_device(GetParam()), options);
  std::vector<std::size_t> sizes;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (std::optional<DeviceBatch> batch = rig.feed().next()) {
      sizes.push_back(batch->size());
      EXPECT_EQ(batch->layout().batch_size, 4);
      rig.read(*batch);
      batch->release(rig.compute());
    }
  }
  rig.finish();
  EXPECT_THAT(sizes, ElementsAre(4, 4, 2, 4, 4, 2));
  EXPECT_THAT(rig.rows(2), ElementsAre(8, 9, -1, -1));
  EXPECT_THAT(rig.rows(5), ElementsAre(8, 9, -1, -1));
}

TEST_P(DeviceFeedTest, AnErrorComesInItsPlaceAndTheRestFollows) {
  for (const std::size_t depth : {1, 3}) {
    FeedOptions options;
    options.samples = 12;
    options.bad = 5;
    options.depth = depth;
    Rig rig(make_device(GetParam()), options);
    std::vector<std::string> story;
    for (bool more = true; more;) {
      try {
        std::optional<DeviceBatch> batch = rig.feed().next();
        more = batch.has_value();
        if (!batch) break;
        story.push_back(batch->first_source() + " to " + batch->last_source());
        rig.read(*batch);
        batch->release(rig.compute());
      } catch (const SampleError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("sample 5"), HasSubstr("planted")));
        story.push_back("error " + std::to_string(error.index()));
      }
    }
    rig.finish();
    EXPECT_THAT(story, ElementsAre("sample/0 to sample/3", "sample/4 to sample/4", "error 5", "sample/6 to sample/7",
                                   "sample/8 to sample/11"));
    EXPECT_THAT(rig.rows(1), ElementsAre(4, -1, -1, -1));
    EXPECT_THAT(rig.rows(2), ElementsAre(6, 7, -1, -1));  // rows after the error begin at row 0 of the slot
    EXPECT_THAT(rig.rows(3), ElementsAre(8, 9, 10, 11));
  }
}

TEST_P(DeviceFeedTest, HoldingAllSlotsIsAnErrorNotAHang) {
  for (const std::size_t depth : {1, 3}) {
    FeedOptions options;
    options.depth = depth;
    options.samples = 40;
    Rig rig(make_device(GetParam()), options);
    std::vector<DeviceBatch> held;
    for (std::size_t i = 0; i < depth; ++i) held.push_back(*rig.feed().next());
    EXPECT_THAT([&] { rig.feed().next(); },
                ThrowsMessage<std::logic_error>("device feed: the caller holds all " + std::to_string(depth) +
                                                " slots; release a batch before asking for the next one"));
    held.front().release(rig.compute());
    const std::optional<DeviceBatch> batch = rig.feed().next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->index(), depth);
    rig.read(*batch);
    rig.finish();
    EXPECT_EQ(rig.rows(0), row_numbers(depth * 4, depth * 4 + 4, 4));
  }
}

TEST_P(DeviceFeedTest, MayEndAtAnyMoment) {
  for (int taken = 0; taken < 6; ++taken) {
    FeedOptions options;
    options.depth = 2;
    options.samples = 100;
    options.epochs = std::nullopt;
    Rig rig(make_device(GetParam()), options);
    rig.feed().warm_up();
    for (int i = 0; i < taken; ++i) {
      std::optional<DeviceBatch> batch = rig.feed().next();
      rig.read(*batch);
      if (i % 2 == 0) batch->release(rig.compute());
    }
    rig.end_feed();
    rig.finish();
    for (int i = 0; i < taken; ++i) {
      const std::uint64_t first = static_cast<std::uint64_t>(i) * 4;
      EXPECT_EQ(rig.rows(static_cast<std::size_t>(i)), row_numbers(first, first + 4, 4));
    }
  }
}

TEST_P(DeviceFeedTest, MovesWithItsLeases) {
  Rig rig(make_device(GetParam()), FeedOptions{});
  std::optional<DeviceBatch> first = rig.feed().next();
  DeviceFeed feed = rig.take_feed();
  DeviceBatch moved(std::move(*first));
  EXPECT_THAT([&] { first->wait_on(rig.compute()); },
              ThrowsMessage<std::logic_error>("device batch: it has been released or moved from"));
  rig.read(moved);
  std::optional<DeviceBatch> second = feed.next();
  EXPECT_EQ(second->index(), 1);
  moved = std::move(*second);  // gives the first slot back
  rig.read(moved);
  moved.release(rig.compute());
  EXPECT_THROW(moved.release(rig.compute()), std::logic_error);
  EXPECT_EQ(feed.next()->index(), 2);
  rig.finish();
  EXPECT_EQ(rig.rows(0), row_numbers(0, 4, 4));
  EXPECT_EQ(rig.rows(1), row_numbers(4, 8, 4));
}

TEST_P(DeviceFeedTest, TakesNoMemoryOnTheWay) {
  FeedOptions options;
  options.samples = 50;
  options.epochs = 3;
  Rig rig(make_device(GetParam()), options);
  const std::uint64_t allocations = rig.device().allocation_count();
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (std::optional<DeviceBatch> batch = rig.feed().next()) {
      batch->wait_on(rig.compute());
      batch->release(rig.compute());
    }
  }
  EXPECT_EQ(rig.device().allocation_count(), allocations);
}

TEST_P(DeviceFeedTest, TellsPositionsThatALoaderCanStartFrom) {
  FeedOptions options;
  options.epochs = 2;
  Rig rig(make_device(GetParam()), options);
  std::vector<Position> positions;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (std::optional<DeviceBatch> batch = rig.feed().next()) {
      positions.push_back(batch->position());
      batch->release(rig.compute());
    }
  }
  ASSERT_EQ(positions.size(), 10);
  EXPECT_EQ(positions[0], (Position{0, 4}));
  EXPECT_EQ(positions[4], (Position{1, 0}));
  EXPECT_EQ(positions[5], (Position{1, 4}));
  EXPECT_EQ(positions[9], (Position{2, 0}));
}

TEST_P(DeviceFeedTest, AnEmptyEpochIsOneEnd) {
  FeedOptions options;
  options.samples = 3;
  options.last = LastBatch::kDrop;
  options.epochs = 2;
  Rig rig(make_device(GetParam()), options);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rig.feed().next());
}

TEST(DeviceFeedStreamsTest, MakesItsStreamAndEventsOnce) {
  auto device = std::make_shared<test::LazyDevice>(test::small_runtime(), 64 * kMiB);
  FeedOptions options;
  options.samples = 100;
  options.epochs = 4;
  Rig rig(device, options);
  const std::size_t streams = device->stream_count();
  const std::size_t events = device->event_count();
  EXPECT_EQ(events, 2 * options.depth + options.pinned_depth);
  for (int epoch = 0; epoch < 4; ++epoch) {
    while (std::optional<DeviceBatch> batch = rig.feed().next()) {
      batch->wait_on(rig.compute());
      batch->release(rig.compute());
    }
  }
  EXPECT_EQ(device->stream_count(), streams);
  EXPECT_EQ(device->event_count(), events);
}

TEST(DeviceFeedStreamsTest, NothingRunsBecauseOfTheFeedAlone) {
  auto device = std::make_shared<test::LazyDevice>(test::small_runtime(), 64 * kMiB);
  FeedOptions options;
  options.depth = 2;
  options.pinned_depth = 3;
  Rig rig(device, options);
  std::optional<DeviceBatch> first = rig.feed().next();
  std::optional<DeviceBatch> second = rig.feed().next();
  EXPECT_EQ(device->pending("feed copy"), 2 * 3);  // two copies with two records each: no host wait was needed
}

TEST(DeviceFeedStreamsTest, RefusesSlotsThatAreTooSmall) {
  FeedOptions options;
  Rig rig(make_device(Schedule::kHost), options);
  rig.end_feed();
  FeedOptions larger = options;
  larger.batch = 8;
  Loader loader(test::small_runtime(), Rig::pipeline(larger), Rig::small_samples());
  EXPECT_THAT([&] { DeviceFeed(make_device(Schedule::kHost), rig.feed_memory(), std::move(loader)); },
              ThrowsMessage<InvalidArgument>("device feed: a batch takes 448 bytes, a slot has 256"));
}

TEST(DeviceFeedStreamsTest, RefusesALoaderThatWritesElsewhere) {
  FeedOptions options;
  Rig rig(make_device(Schedule::kHost), options);
  rig.end_feed();
  const std::shared_ptr<Device> device = make_device(Schedule::kHost);
  DeviceFeed feed(device, rig.feed_memory(),
                  Loader(test::small_runtime(), Rig::pipeline(options), Rig::small_samples()));
  EXPECT_THAT([&] { feed.next(); }, ThrowsMessage<std::logic_error>(HasSubstr("page-locked memory")));
}

TEST(DeviceFeedStreamsTest, TheLoadersStopComesOut) {
  FeedOptions options;
  options.samples = 400;
  Rig rig(make_device(Schedule::kHost), options);
  std::optional<DeviceBatch> batch = rig.feed().next();
  batch->release(rig.compute());
  rig.feed().loader().stop();
  const auto until_it_throws = [&] {
    while (std::optional<DeviceBatch> next = rig.feed().next()) next->release(rig.compute());
  };
  EXPECT_THROW(until_it_throws(), Stopped);
  EXPECT_THROW(until_it_throws(), Stopped);
  EXPECT_GE(rig.feed().wait_seconds(), 0);
}

}  // namespace
}  // namespace penstock::gpu
