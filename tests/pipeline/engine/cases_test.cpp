// What users of other loaders have met, with the values that are right: order, last batches, resuming, draws, epochs
// that end, errors, handles, threads.
#include <penstock/pipeline/loader.h>

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/source/idx.h>
#include <penstock/pipeline/source/image_folder.h>

#include "support/child_process.h"
#include "support/jpeg_bytes.h"
#include "support/pipeline_support.h"
#include "support/source_idx_bytes.h"
#include "support/source_temp_folder.h"

namespace penstock {
namespace {

using test::flat_epoch;
using test::numbers;
using test::TempFolder;
using test::values;
using Values = std::vector<std::int64_t>;

/// IDX files of `count` pictures of 28x28, whose labels are their numbers.
Pipeline idx_of(const TempFolder& folder, std::uint32_t count) {
  std::string labels;
  for (std::uint32_t i = 0; i < count; ++i) labels += static_cast<char>(i);
  const std::string name = "idx" + std::to_string(count);
  return idx(folder.write(name + "-images", test::idx_bytes({count, 28, 28}, test::pattern_bytes(count * 784))),
             folder.write(name + "-labels", test::idx_bytes({count}, labels)));
}

std::size_t status_number(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(name + ":", 0) == 0) return std::stoul(line.substr(name.size() + 1));
  }
  return 0;
}

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

constexpr const char* kChild = "PENSTOCK_CASES_CHILD";
bool is_child() { return std::getenv(kChild) != nullptr; }

/// Runs this very test in a process of its own, through the shell: `before` goes before it.
test::ChildResult run_test_again(const std::string& before = "") {
  const ::testing::TestInfo& info = *::testing::UnitTest::GetInstance()->current_test_info();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const TempFolder work;
  return test::run_child({"/bin/sh", "-c",
                          before + " " + kChild + "=1 exec '" + program + "' --gtest_filter='" +
                              info.test_suite_name() + "." + info.name() + "'"},
                         work.path());
}

TEST(OrderCasesTest, ThreeEpochsAreThreePermutationsTheSameInEveryProcess) {
  const TempFolder folder;
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, idx_of(folder, 16).shuffle({.seed = 7}).batch(5), {.epoch_count = 3});
  std::set<Values> orders;
  std::ostringstream text;
  Values sorted;
  for (std::int64_t i = 0; i < 16; ++i) sorted.push_back(i);
  for (int epoch = 0; epoch < 3; ++epoch) {
    Values order = flat_epoch(loader, "label");
    orders.insert(order);
    text << "order";
    for (const std::int64_t label : order) text << ' ' << label;
    text << '\n';
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, sorted);
  }
  EXPECT_EQ(orders.size(), 3u);
  if (is_child()) {
    std::cout << text.str() << std::flush;
    return;
  }
  const test::ChildResult other = run_test_again();
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, ::testing::HasSubstr(text.str()));
}

TEST(OrderCasesTest, RepeatAfterShuffleKeepsPassesApartAndBeforeMixesThem) {
  const TempFolder folder;
  const Runtime runtime({.threads = 2});
  Loader apart(runtime, idx_of(folder, 16).shuffle({.seed = 7}).repeat(3).batch(16), {.epoch_count = 1});
  std::set<Values> passes;
  while (const std::optional<Batch> batch = apart.next()) {
    const Values pass = values(*batch, "label");
    passes.insert(pass);
    EXPECT_EQ(std::set<std::int64_t>(pass.begin(), pass.end()).size(), 16u);
  }
  EXPECT_EQ(passes.size(), 3u) << "each pass another permutation";
  Loader mixed(runtime, idx_of(folder, 16).repeat(3).shuffle({.seed = 7}).batch(16), {.epoch_count = 1});
  const Values all = flat_epoch(mixed, "label");
  ASSERT_EQ(all.size(), 48u);
  for (std::int64_t label = 0; label < 16; ++label) EXPECT_EQ(std::count(all.begin(), all.end(), label), 3);
  EXPECT_LT(std::set<std::int64_t>(all.begin(), all.begin() + 16).size(), 16u) << "passes are mixed";
}

TEST(LastBatchCasesTest, SevenInTwosIsSeenOnceAndPaddedOnlyOnRequest) {
  const TempFolder folder;
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = idx_of(folder, 7);
  const std::vector<Values> once = {{0, 1}, {2, 3}, {4, 5}, {6}};
  Loader keep(runtime, pipeline.batch(2), {.epoch_count = 2});
  EXPECT_EQ(keep.batches_per_epoch(), 4u);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(test::epoch_values(keep, "label"), once);

  Loader drop(runtime, pipeline.batch(2, LastBatch::kDrop), {.epoch_count = 1});
  EXPECT_EQ(drop.batches_per_epoch(), 3u);
  EXPECT_EQ(drop.dropped_per_epoch(), 1u);
  EXPECT_EQ(test::epoch_values(drop, "label"), (std::vector<Values>{{0, 1}, {2, 3}, {4, 5}}));

  Loader pad(runtime, pipeline.batch(2, LastBatch::kPad), {.epoch_count = 2});
  EXPECT_EQ(pad.batches_per_epoch(), 4u);
  for (int pass = 0; pass < 2; ++pass) {
    Values got;
    std::vector<int> mask;
    while (const std::optional<Batch> batch = pad.next()) {
      EXPECT_EQ(batch->capacity(), 2u);
      for (std::size_t row = 0; row < 2; ++row) mask.push_back(row < batch->size() ? 1 : 0);
      for (const std::int64_t label : values(*batch, "label")) got.push_back(label);
    }
    EXPECT_EQ(got, (Values{0, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(mask, (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 0}));
  }
}

/// Labels with what was drawn for them, and the picture's bytes.
using Augmented = std::vector<std::pair<std::int64_t, std::string>>;

void take(Loader& loader, std::size_t batches, Augmented& into) {
  for (std::size_t i = 0; i < batches; ++i) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) {
      into.emplace_back(-1, "end");
      continue;
    }
    const std::size_t bytes = batch->layout().fields[0].row_bytes;
    for (std::size_t row = 0; row < batch->size(); ++row) {
      into.emplace_back(values(*batch, "label")[row],
                        std::string(reinterpret_cast<const char*>(batch->field_data(0)) + row * bytes, bytes));
    }
  }
}

TEST(ResumeCasesTest, StoppedTwiceInAnEpochGivesTheSequenceOfAnUninterruptedRun) {
  const TempFolder folder;
  const Pipeline pipeline = idx_of(folder, 100).shuffle({.seed = 3}).map(random_crop(20)).map(random_flip()).batch(4);
  Augmented whole;
  {
    const Runtime runtime({.threads = 2});
    Loader loader(runtime, pipeline, {.epoch_count = 2, .seed = 11});
    take(loader, 52, whole);  // two epochs of 25, and two ends
  }
  std::set<std::string> pictures;
  for (const auto& [label, picture] : whole) pictures.insert(picture);
  EXPECT_GT(pictures.size(), 190u) << "nearly every picture is cut in another way in the other epoch";
  for (const std::size_t threads : {1, 2, 8}) {
    const Runtime runtime({.threads = threads});
    Augmented joined;
    std::string state;
    const auto part = [&](std::size_t batches) {
      LoaderOptions options{.epoch_count = 2, .seed = 11};
      if (!state.empty()) options.start = read_state(pipeline, state);
      Loader loader(runtime, pipeline, options);
      take(loader, batches, joined);
      state = loader.state();
    };
    part(7);
    part(5);
    part(40);
    EXPECT_EQ(joined, whole) << threads << " threads";
  }
}

TEST(ResumeCasesTest, SavedExactlyAtAnEpochsEndLosesNoEpochAndRepeatsNone) {
  const TempFolder folder;
  const Pipeline pipeline = idx_of(folder, 100).shuffle({.seed = 3}).batch(4);
  for (const bool end_taken : {false, true}) {
    const Runtime runtime({.threads = 2});
    Augmented whole;
    Loader uninterrupted(runtime, pipeline, {.epoch_count = 3});
    take(uninterrupted, 78, whole);
    Augmented joined;
    Loader first(runtime, pipeline, {.epoch_count = 3});
    take(first, end_taken ? 26 : 25, joined);
    if (!end_taken) joined.emplace_back(-1, "end");
    Loader second(runtime, pipeline, {.epoch_count = 3, .start = read_state(pipeline, first.state())});
    take(second, 52, joined);
    EXPECT_EQ(joined, whole);
    EXPECT_FALSE(second.next());
  }
}

TEST(DrawCasesTest, NoTwoSamplesShareTheirDrawsAndEpochsDiffer) {
  const TempFolder folder;
  const auto drawn = [&](std::size_t threads, std::uint64_t seed) {
    std::mutex mutex;
    std::map<std::pair<std::int64_t, int>, std::multiset<std::uint64_t>> log;  // (label, stage) -> a draw an epoch
    const auto logged = [&](int stage) {
      return [&, stage](std::int64_t label, Draw& draw) {
        const std::uint64_t bits = std::uint64_t{draw.bits()} << 32 | draw.bits();
        const std::lock_guard lock(mutex);
        log[{label, stage}].insert(bits);
        return label;
      };
    };
    const Runtime runtime({.threads = threads});
    Loader loader(runtime,
                  idx_of(folder, 64)
                      .shuffle({.seed = 1})
                      .map(random_crop(24))
                      .map("label", logged(0))
                      .map(random_flip())
                      .map("label", logged(1))
                      .map("label", logged(2))
                      .batch(8),
                  {.epoch_count = 2, .seed = seed});
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(flat_epoch(loader, "label").size(), 64u);
    return log;
  };
  const auto log = drawn(8, 5);
  std::set<std::uint64_t> all;
  ASSERT_EQ(log.size(), 64u * 3u);
  for (const auto& [key, draws] : log) {
    EXPECT_EQ(draws.size(), 2u);
    all.insert(draws.begin(), draws.end());
  }
  EXPECT_EQ(all.size(), 64u * 3u * 2u) << "all differ: samples, stages, epochs";
  EXPECT_EQ(drawn(1, 5), log) << "a draw depends on seed, epoch and sample alone";
  EXPECT_NE(drawn(8, 6), log);
}

TEST(EpochCasesTest, AnEpochOfTwoBatchesEndsAfterTwoWhateverIsAskedFor) {
  const TempFolder folder;
  const Runtime runtime({.threads = 2});
  Loader train(runtime, idx_of(folder, 256).shuffle({.seed = 1}).batch(128), {.epoch_count = 4});
  Loader validation(runtime, idx_of(folder, 16).batch(8), {.epoch_count = 4});
  EXPECT_EQ(train.batches_per_epoch(), 2u) << "not 256 / 128 + 1";
  std::size_t validated = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::size_t steps = 0;
    for (int step = 0; step < 3; ++step) {
      const std::optional<Batch> batch = train.next();
      if (!batch) break;  // the third: the epoch is over, and says so
      EXPECT_EQ(batch->epoch(), static_cast<std::uint64_t>(epoch));
      EXPECT_EQ(batch->size(), 128u);
      ++steps;
    }
    EXPECT_EQ(steps, 2u);
    if (flat_epoch(validation, "label").size() == 16u) ++validated;
  }
  EXPECT_EQ(validated, 4u);
  EXPECT_FALSE(train.next()) << "after the last epoch: nothing, for ever";
}

struct TwoPartError : std::runtime_error {
  TwoPartError(const std::string& text, int number)
      : std::runtime_error(text + " " + std::to_string(number)), code(number) {}
  int code;
};

template <class Throw, class Check>
void expect_fault_at_eleven(Throw&& fault, const std::string& detail, Check&& check) {
  for (const std::size_t threads : {1, 8}) {
    for (const bool stream : {false, true}) {
      const Runtime runtime({.threads = threads});
      Pipeline pipeline = numbers(20).map("x", [&](std::int64_t x) {
        if (x == 110) fault();
        return x;
      });
      if (stream) pipeline = pipeline.filter("x", [](std::int64_t) { return true; });
      Loader loader(runtime, pipeline.batch(20), {.epoch_count = 1});
      const std::optional<Batch> before = loader.next();
      ASSERT_TRUE(before);
      EXPECT_EQ(values(*before), (Values{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
      try {
        loader.next();
        FAIL() << "nothing was thrown";
      } catch (const SampleError& error) {
        EXPECT_STREQ(error.what(), ("map(x): sample 11, \"number 11\": " + detail).c_str());
        EXPECT_EQ(error.stage(), "map(x)");
        EXPECT_EQ(error.index(), 11u);
        check(error);
      }
      const std::optional<Batch> after = loader.next();
      ASSERT_TRUE(after) << "thrown once; the rest follows";
      EXPECT_EQ(values(*after), (Values{120, 130, 140, 150, 160, 170, 180, 190}));
      EXPECT_FALSE(loader.next());
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(FaultCasesTest, ARuntimeErrorComesWithTypeAndText) {
  expect_fault_at_eleven(
      [] { throw std::runtime_error("the text"); }, "the text",
      [](const SampleError& error) { EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error); });
}

TEST(FaultCasesTest, ATypeOfTheUsersOwnKeepsBothArguments) {
  expect_fault_at_eleven([] { throw TwoPartError("part", 42); }, "part 42",
                         [](const SampleError& error) {
                           try {
                             std::rethrow_if_nested(error);
                             FAIL() << "nothing is nested";
                           } catch (const TwoPartError& own) {
                             EXPECT_EQ(own.code, 42);
                             EXPECT_STREQ(own.what(), "part 42");
                           }
                         });
}

TEST(FaultCasesTest, AnIntIsPassedOnToo) {
  std::string detail;
  {
    const Runtime runtime({.threads = 1});
    Loader loader(runtime, numbers(1)
                               .map("x",
                                    [](std::int64_t x) -> std::int64_t {
                                      if (x == 0) throw 7;
                                      return x;
                                    })
                               .batch(1));
    try {
      loader.next();
    } catch (const SampleError& error) {
      const std::string text = error.what();
      detail = text.substr(text.find("\": ") + 3);
    }
  }
  EXPECT_FALSE(detail.empty());
  expect_fault_at_eleven([] { throw 7; }, detail,
                         [](const SampleError& error) {
                           try {
                             std::rethrow_if_nested(error);
                             FAIL() << "nothing is nested";
                           } catch (int number) {
                             EXPECT_EQ(number, 7);
                           }
                         });
}

// 1200 files and 150 shards, with no more than 64 descriptors for the whole process.
TEST(HandleCasesTest, ManyFilesAndShardsNeedFewDescriptors) {
  if (!is_child()) {
    const test::ChildResult result = run_test_again("ulimit -n 64;");
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, ::testing::HasSubstr("[  PASSED  ] 1 test."));
    return;
  }
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(limit.rlim_cur, 64u);
  const TempFolder folder;
  for (int i = 0; i < 1200; ++i) {
    folder.write("files/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", std::to_string(i));
  }
  std::vector<Pipeline> shards;
  for (int i = 0; i < 150; ++i) {
    const std::string name = "shard" + std::to_string(i);
    shards.push_back(idx(folder.write(name + "-images", test::idx_bytes({4, 2, 2}, test::pattern_bytes(16))),
                         folder.write(name + "-labels", test::idx_bytes({4}, std::string(4, static_cast<char>(i))))));
  }
  const std::size_t before = open_files();
  std::size_t most = 0;
  std::vector<Batch> kept;
  {
    const Runtime runtime({.threads = 8});
    Loader files(runtime,
                 image_folder(folder.path("files"))
                     .shuffle({.seed = 1})
                     .map("image", Output{DataType::kI64, {}},
                          [](View<const std::uint8_t> in, View<std::int64_t> out) {
                            out[0] = std::stoll(std::string(reinterpret_cast<const char*>(in.data()),
                                                            static_cast<std::size_t>(in.size())));
                          })
                     .batch(25)
                     .prefetch(50),
                 {.epoch_count = 2});
    Loader joined(runtime, concatenate(shards).batch(8), {.epoch_count = 2, .max_sample_bytes = 4096});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<int> seen(1200);
      while (const std::optional<Batch> batch = files.next()) {
        for (const std::int64_t x : values(*batch, "image")) ++seen.at(static_cast<std::size_t>(x));
        most = std::max(most, open_files());
        if (kept.size() < 40) kept.push_back(*batch);
      }
      EXPECT_EQ(seen, std::vector<int>(1200, 1));
      std::vector<int> of_shard(150);
      for (const std::int64_t label : flat_epoch(joined, "label")) ++of_shard.at(static_cast<std::size_t>(label));
      EXPECT_EQ(of_shard, std::vector<int>(150, 4));
    }
  }
  EXPECT_LE(most, 63u);
  EXPECT_EQ(open_files(), before) << "40 batches are kept, and hold no handles";
}

TEST(ThreadCasesTest, TwoPipelinesOfPicturesHaveTheThreadsAskedFor) {
  const TempFolder folder;
  for (int i = 0; i < 32; ++i) {
    std::vector<std::uint8_t> pixels(std::size_t{256} * 256 * 3);
    for (std::size_t p = 0; p < pixels.size(); ++p) pixels[p] = static_cast<std::uint8_t>(p / 97 + i);
    folder.write("a/" + std::to_string(i) + ".jpg", test::jpeg_bytes(pixels, 256, 256, 3));
  }
  std::thread([] {}).join();  // with a program's first thread, the thread sanitizer starts one of its own
  // Workers; I/O threads, which the reader adds where storage is slow, at most as many as there are files in flight.
  constexpr std::size_t kIo = 2;
  constexpr std::size_t kReads = 4;
  const auto run = [&](std::size_t before, std::size_t others) {
    const Runtime a({.threads = 3, .io_threads = kIo});
    const Runtime b({.threads = 3, .io_threads = kIo});
    const Pipeline pipeline = image_folder(folder.path()).map(decode_image()).map(resize(64, 64)).batch(4);
    Loader first(a, pipeline, {.epoch_count = 1, .reads_in_flight = kReads});
    Loader second(b, pipeline, {.epoch_count = 1, .reads_in_flight = kReads});
    std::size_t most = 0;
    std::size_t rows = 0;
    for (int i = 0; i < 8; ++i) {
      rows += first.next()->size();
      rows += second.next()->size();
      most = std::max(most, status_number("Threads"));
    }
    EXPECT_EQ(rows, 64u);
    EXPECT_LE(most, before + others + 2 * (3 + std::max(kIo, kReads)));
  };
  run(status_number("Threads"), 0);

  tbb::task_arena arena(8);
  const std::size_t before = status_number("Threads");
  arena.execute([&] { tbb::parallel_for(0, 1, [&](int) { run(before, std::thread::hardware_concurrency()); }); });
}

}  // namespace
}  // namespace penstock
