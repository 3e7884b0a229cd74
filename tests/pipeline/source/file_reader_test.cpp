#include <penstock/pipeline/io/file_reader.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/descriptor.h>
#include <penstock/pipeline/io/error_text.h>
#include <penstock/pipeline/io/whole_file.h>
#include <support/source_collect.h>
#include <support/source_idx_bytes.h>
#include <support/source_plain_user.h>
#include <support/source_temp_folder.h>

namespace penstock {
namespace {

using test::pattern_bytes;
using test::PlainUser;
using test::TempFolder;

struct Outcome {
  std::error_code error;
  std::size_t bytes = 0;
  int rooms = 0;
  std::string data;
};

// Reads a file and waits for it. `in_room` runs when the size is known.
Outcome read(FileReader& files, const std::string& path, const std::function<void()>& in_room = [] {}) {
  Outcome outcome;
  std::promise<void> ended;
  files.read_file(
      path,
      [&](std::size_t bytes) {
        ++outcome.rooms;
        outcome.data.resize(bytes);
        in_room();
        return reinterpret_cast<std::byte*>(outcome.data.data());
      },
      [&](std::error_code error, std::size_t bytes) {
        outcome.error = error;
        outcome.bytes = bytes;
        ended.set_value();
      });
  ended.get_future().wait();
  return outcome;
}

int open_file_count() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(FileReaderTest, ReadsFilesOfAnySizeWhole) {
  const TempFolder folder;
  const auto files = make_file_reader(2);
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{92'000}, (std::size_t{16} << 20) + 3}) {
    const std::string content = pattern_bytes(size);
    const Outcome outcome = read(*files, folder.write("file", content));
    EXPECT_FALSE(outcome.error) << outcome.error.message();
    EXPECT_EQ(outcome.bytes, size);
    EXPECT_EQ(outcome.rooms, 1);
    EXPECT_TRUE(outcome.data == content) << size;
  }
}

TEST(FileReaderTest, EmptyFileAsksForNoRoom) {
  const TempFolder folder;
  const Outcome outcome = read(*make_file_reader(1), folder.write("empty", ""));
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.bytes, 0u);
  EXPECT_EQ(outcome.rooms, 0);
}

TEST(FileReaderTest, ErrorsKeepTheirErrno) {
  const TempFolder folder;
  const std::string secret = folder.write("secret", "x");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0644), 0);
  std::shared_ptr<FileReader> files;
  {
    const PlainUser plain;
    files = make_file_reader(1);
  }
  EXPECT_EQ(read(*files, folder.path("nothing")).error, std::error_code(ENOENT, std::generic_category()));
  EXPECT_EQ(read(*files, secret).error, std::error_code(EACCES, std::generic_category()));
  EXPECT_EQ(read(*files, folder.path()).error, std::error_code(EISDIR, std::generic_category()));
  EXPECT_EQ(read(*files, pipe).error, std::error_code(EINVAL, std::generic_category()));
}

TEST(FileReaderTest, FileThatShrinksMeanwhileIsAnError) {
  const TempFolder folder;
  const std::string path = folder.write("file", pattern_bytes(1000));
  const Outcome outcome = read(*make_file_reader(1), path, [&] { std::filesystem::resize_file(path, 10); });
  EXPECT_EQ(outcome.error, std::errc::no_message_available);
  EXPECT_EQ(outcome.bytes, 10u);
}

TEST(FileReaderTest, FileThatGrowsMeanwhileIsReadToItsFirstSize) {
  const TempFolder folder;
  const std::string content = pattern_bytes(1000);
  const std::string path = folder.write("file", content);
  const Outcome outcome = read(*make_file_reader(1), path, [&] { std::filesystem::resize_file(path, 5000); });
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.data, content);
}

TEST(FileReaderTest, NoRoomEndsTheRead) {
  const TempFolder folder;
  const auto files = make_file_reader(1);
  std::promise<std::error_code> ended;
  files->read_file(
      folder.write("file", "abc"), [](std::size_t) { return nullptr; },
      [&](std::error_code error, std::size_t) { ended.set_value(error); });
  EXPECT_EQ(ended.get_future().get(), std::errc::operation_canceled);
}

TEST(FileReaderTest, ManyFilesUnderATightLimitOfOpenFiles) {
  constexpr int kFiles = 500;
  constexpr int kThreads = 4;
  const TempFolder folder;
  for (int i = 0; i < kFiles; ++i) folder.write(std::to_string(i), "file " + std::to_string(i));
  const auto files = make_file_reader(kThreads);
  const int open_before = open_file_count();

  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const io::Descriptor probe(io::open_retrying(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit tight = old;
  tight.rlim_cur = static_cast<rlim_t>(probe.get() + 1 + kThreads);  // the reader's files, and not one more
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);

  std::vector<std::string> data(kFiles);
  std::vector<std::error_code> errors(kFiles);
  std::latch all(kFiles);
  for (std::size_t i = 0; i < kFiles; ++i) {
    files->read_file(
        folder.path(std::to_string(i)),
        [&data, i](std::size_t bytes) {
          data[i].resize(bytes);
          return reinterpret_cast<std::byte*>(data[i].data());
        },
        [&errors, &all, i](std::error_code error, std::size_t) {
          errors[i] = error;
          all.count_down();
        });
  }
  all.wait();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  for (std::size_t i = 0; i < kFiles; ++i) {
    EXPECT_FALSE(errors[i]) << io::error_text(errors[i]);
    EXPECT_EQ(data[i], "file " + std::to_string(i));
  }
  EXPECT_EQ(open_file_count(), open_before + 1);
}

TEST(FileReaderTest, DestroyedInMidFlightCallsEveryDoneOnce) {
  constexpr std::size_t kReads = 200;
  const TempFolder folder;
  const std::string path = folder.write("file", "abc");
  auto files = make_file_reader(2);
  std::vector<std::atomic<int>> ends(kReads);
  std::vector<std::error_code> errors(kReads);
  std::vector<std::array<std::byte, 3>> data(kReads);
  std::latch in_flight(2);
  std::promise<void> gate;
  const std::shared_future<void> opened(gate.get_future());
  for (std::size_t i = 0; i < kReads; ++i) {
    files->read_file(
        path,
        [&, i](std::size_t) {
          if (i < 2) {
            in_flight.count_down();
            opened.wait();
          }
          return data[i].data();
        },
        [&, i](std::error_code error, std::size_t) {
          errors[i] = error;
          ++ends[i];
        });
  }
  in_flight.wait();  // two reads are under way, the others wait
  std::thread destroyer([&] { files.reset(); });
  gate.set_value();
  destroyer.join();
  for (std::size_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(ends[i], 1) << i;
    if (errors[i]) {
      EXPECT_EQ(errors[i], std::errc::operation_canceled);
    } else {
      EXPECT_EQ(data[i][2], std::byte{'c'});
    }
  }
}

TEST(FileReaderTest, RefusesNoThreadsAndTooMany) {
  EXPECT_EQ(test::refusal_of([] { make_file_reader(0); }), "make_file_reader: 1 to 1024 threads, not 0");
  EXPECT_EQ(test::refusal_of([] { make_file_reader(1025); }), "make_file_reader: 1 to 1024 threads, not 1025");
}

TEST(WholeFileTest, CancelledBeforeOpensNothing) {
  const std::atomic<bool> cancelled{true};
  const io::ReadResult result = io::read_whole_file("/nothing", [](std::size_t) { return nullptr; }, cancelled);
  EXPECT_EQ(result.error, std::errc::operation_canceled);
}

TEST(WholeFileTest, CancelledBetweenTwoReads) {
  const TempFolder folder;
  const std::string path = folder.write("file", "abc");
  std::atomic<bool> cancelled{false};
  std::array<std::byte, 3> data{};
  const io::ReadResult result = io::read_whole_file(
      path,
      [&](std::size_t) {
        cancelled = true;
        return data.data();
      },
      cancelled);
  EXPECT_EQ(result.error, std::errc::operation_canceled);
  EXPECT_EQ(result.bytes, 0u);
}

TEST(DescriptorTest, MovedFromIsEmptyAndAssignmentClosesWhatItHeld) {
  const int before = open_file_count();
  const auto open_null = [] { return io::Descriptor(io::open_retrying(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC)); };
  io::Descriptor a = open_null();
  io::Descriptor b = open_null();
  EXPECT_EQ(open_file_count(), before + 2);
  a = std::move(b);
  EXPECT_EQ(open_file_count(), before + 1);
  EXPECT_TRUE(a);
  EXPECT_FALSE(b);  // NOLINT(bugprone-use-after-move): what this test is about
  const io::Descriptor c(std::move(a));
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(open_file_count(), before + 1);
}

TEST(ErrorTextTest, NamesTheErrno) {
  EXPECT_EQ(io::error_text(ENOENT), "ENOENT: No such file or directory");
  EXPECT_EQ(io::error_text(std::error_code(EACCES, std::system_category())), "EACCES: Permission denied");
}

}  // namespace
}  // namespace penstock
