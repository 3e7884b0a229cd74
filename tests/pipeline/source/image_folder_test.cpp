#include <penstock/pipeline/source/image_folder.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/file_reader.h>
#include <support/source_collect.h>
#include <support/source_plain_user.h>
#include <support/source_temp_folder.h>

namespace penstock {
namespace {

using test::collect;
using test::data_error_of;
using test::PlainUser;
using test::refusal_of;
using test::source_error_of;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ImageFolderTest : public testing::Test {
 protected:
  // Paths below the folder, with labels.
  std::vector<std::pair<std::string, std::int64_t>> listing(const ImageFolder& source) {
    std::vector<std::pair<std::string, std::int64_t>> all;
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      const std::string path = source.describe(i);
      EXPECT_EQ(path.substr(0, folder_.path().size() + 1), folder_.path() + "/");
      all.emplace_back(path.substr(folder_.path().size() + 1), collect(source, i, *files_)->label(1));
    }
    return all;
  }

  TempFolder folder_;
  std::shared_ptr<FileReader> files_ = make_file_reader(2);
};

TEST_F(ImageFolderTest, GivesBytesAndLabels) {
  folder_.write("cat/1.jpg", "first");
  folder_.write("dog/2.jpg", "second");
  folder_.write("dog/3.jpg", "third");
  const auto source = open_image_folder(folder_.path());
  EXPECT_EQ(source->schema().to_string(), "image: u8 [?], label: i64 []");
  EXPECT_THAT(source->classes(), ElementsAre("cat", "dog"));
  EXPECT_THAT(source->class_counts(), ElementsAre(1u, 2u));
  EXPECT_EQ(source->ignored_count(), 0u);
  EXPECT_THAT(source->warnings(), IsEmpty());
  ASSERT_EQ(source->size(), 3u);
  const auto sample = collect(*source, 1, *files_);
  EXPECT_EQ(sample->bytes(0), "second");
  EXPECT_EQ(sample->value(0).shape, Shape{6});
  EXPECT_EQ(sample->label(1), 1);
  EXPECT_EQ(collect(*source, 2, *files_)->bytes(0), "third");
}

TEST_F(ImageFolderTest, OrderIsByteWiseOverWholePaths) {
  // '-' and '.' come before '/', '0' after it, bytes above 127 last.
  for (const char* name : {"a/x.png", "a-b/x.png", "a.c/x.png", "a0/x.png", "\xc3\xa9/x.png", "a/sub/1.png",
                           "a/sub-1.png", "a/sub0.png", "a/Z.png"}) {
    folder_.write(name, "x");
  }
  EXPECT_THAT(listing(*open_image_folder(folder_.path() + "/")),
              ElementsAre(std::pair("a-b/x.png", 1), std::pair("a.c/x.png", 2), std::pair("a/Z.png", 0),
                          std::pair("a/sub-1.png", 0), std::pair("a/sub/1.png", 0), std::pair("a/sub0.png", 0),
                          std::pair("a/x.png", 0), std::pair("a0/x.png", 3), std::pair("\xc3\xa9/x.png", 4)));
}

TEST_F(ImageFolderTest, HiddenNamesAndOtherFilesAreCountedNotRead) {
  for (const char* name : {"cat/a.png", "cat/.hidden.png", "cat/notes.txt", "cat/png", "stray.png", ".git/x.png",
                           ".git/y.png", "cat/.thumbs/a.png"}) {
    folder_.write(name, "x");
  }
  const auto source = open_image_folder(folder_.path());
  EXPECT_THAT(listing(*source), ElementsAre(std::pair("cat/a.png", 0)));
  EXPECT_EQ(source->ignored_count(), 6u);  // .git and .thumbs are one each
}

TEST_F(ImageFolderTest, AnOptionBringsHiddenNamesBack) {
  for (const char* name : {"cat/a.png", "cat/.hidden.png", ".more/x.png", "cat/.DS_Store"}) folder_.write(name, "x");
  const auto source = open_image_folder(folder_.path(), {.include_hidden = true});
  EXPECT_THAT(source->classes(), ElementsAre(".more", "cat"));
  EXPECT_THAT(listing(*source),
              ElementsAre(std::pair(".more/x.png", 0), std::pair("cat/.hidden.png", 1), std::pair("cat/a.png", 1)));
  EXPECT_EQ(source->ignored_count(), 1u);
}

TEST_F(ImageFolderTest, SuffixesAreAnOption) {
  for (const char* name : {"c/a.BIN", "c/b.png", "c/c.bin"}) folder_.write(name, "x");
  EXPECT_THAT(listing(*open_image_folder(folder_.path(), {.suffixes = {".bin"}})),
              ElementsAre(std::pair("c/a.BIN", 0), std::pair("c/c.bin", 0)));
}

TEST_F(ImageFolderTest, GivenClassesKeepTheirNumbers) {
  folder_.write("b/1.png", "x");
  folder_.write("z/1.png", "x");
  folder_.make_folder("empty");
  const auto source = open_image_folder(folder_.path(), {.classes = {"z", "empty", "gone", "b"}});
  EXPECT_THAT(listing(*source), ElementsAre(std::pair("b/1.png", 3), std::pair("z/1.png", 0)));
  EXPECT_THAT(source->classes(), ElementsAre("z", "empty", "gone", "b"));
  EXPECT_THAT(source->class_counts(), ElementsAre(1u, 0u, 0u, 1u));
  EXPECT_THAT(source->warnings(), ElementsAre("class \"empty\" has no pictures", "class \"gone\" has no pictures"));
}

TEST_F(ImageFolderTest, EmptyClassFoldersBetweenOthersKeepTheirNumbers) {
  folder_.make_folder("a");
  folder_.write("b/1.png", "x");
  folder_.make_folder("c");
  folder_.make_folder("d");
  folder_.write("e/1.png", "x");
  folder_.make_folder("f");
  EXPECT_THAT(listing(*open_image_folder(folder_.path())),
              ElementsAre(std::pair("b/1.png", 1), std::pair("e/1.png", 4)));
}

TEST_F(ImageFolderTest, RefusesAFolderThatIsNotInTheClassList) {
  folder_.write("a/1.png", "x");
  folder_.write("b/1.png", "x");
  EXPECT_EQ(source_error_of([&] { open_image_folder(folder_.path(), {.classes = {"a"}}); }),
            "unknown_class: " + folder_.path("b") + ": class \"b\" is not among the 1 classes given");
}

TEST_F(ImageFolderTest, RefusesFoldersThatCannotBeListed) {
  EXPECT_EQ(source_error_of([&] { open_image_folder(folder_.path("gone")); }),
            "open_failed: " + folder_.path("gone") + ": ENOENT: No such file or directory");
  const std::string file = folder_.write("c/file.png", "x");
  EXPECT_EQ(source_error_of([&] { open_image_folder(file); }), "open_failed: " + file + ": ENOTDIR: Not a directory");
  folder_.write("c/deep/secret/1.png", "x");
  std::filesystem::permissions(folder_.path("c/deep/secret"), std::filesystem::perms::none);
  const PlainUser plain;
  EXPECT_EQ(source_error_of([&] { open_image_folder(folder_.path()); }),
            "open_failed: " + folder_.path("c/deep/secret") + ": EACCES: Permission denied");
}

TEST_F(ImageFolderTest, RefusesFoldersWithoutPictures) {
  EXPECT_EQ(source_error_of([&] { open_image_folder(folder_.path()); }),
            "other: " + folder_.path() + ": no class folders, so no pictures (0 names ignored)");
  folder_.write("a/notes.txt", "x");
  folder_.make_folder("b");
  EXPECT_EQ(source_error_of([&] { open_image_folder(folder_.path()); }),
            "other: " + folder_.path() + ": no pictures in its 2 class folders (1 names ignored)");
}

TEST_F(ImageFolderTest, RefusesOptionsThatCannotWork) {
  folder_.write("a/1.png", "x");
  EXPECT_EQ(refusal_of([&] { open_image_folder(folder_.path(), {.classes = {"a", "b", "a"}}); }),
            "image_folder: class \"a\" is given twice");
  EXPECT_EQ(refusal_of([&] { open_image_folder(folder_.path(), {.classes = {"a", ""}}); }),
            "image_folder: a class name is empty");
  EXPECT_EQ(refusal_of([&] { open_image_folder(folder_.path(), {.suffixes = {}}); }),
            "image_folder: no suffix, or an empty one, is given");
}

TEST_F(ImageFolderTest, FollowsLinksButNotInCircles) {
  folder_.write("elsewhere_/x", "x");
  const TempFolder other;
  other.write("pictures/1.png", "from afar");
  folder_.write("a/2.png", "near");
  std::filesystem::remove_all(folder_.path("elsewhere_"));
  std::filesystem::create_directory_symlink(other.path("pictures"), folder_.path("a/far"));
  std::filesystem::create_directory_symlink("..", folder_.path("a/up"));
  std::filesystem::create_symlink(other.path("pictures/1.png"), folder_.path("a/3.png"));
  const auto source = open_image_folder(folder_.path());
  EXPECT_THAT(listing(*source),
              ElementsAre(std::pair("a/2.png", 0), std::pair("a/3.png", 0), std::pair("a/far/1.png", 0)));
  EXPECT_EQ(collect(*source, 1, *files_)->bytes(0), "from afar");
  EXPECT_EQ(source->ignored_count(), 1u);
}

TEST_F(ImageFolderTest, LinkToNothingIsListedAndFails) {
  folder_.make_folder("a");
  std::filesystem::create_symlink("nothing", folder_.path("a/1.png"));
  const auto source = open_image_folder(folder_.path());
  ASSERT_EQ(source->size(), 1u);
  EXPECT_EQ(data_error_of([&] { collect(*source, 0, *files_); }), "open_failed: ENOENT: No such file or directory");
  EXPECT_THAT(source->fingerprint(0), HasSubstr("ENOENT"));
}

TEST_F(ImageFolderTest, PipesAreIgnored) {
  folder_.write("a/1.png", "x");
  ASSERT_EQ(::mkfifo(folder_.path("a/2.png").c_str(), 0644), 0);
  const auto source = open_image_folder(folder_.path());
  EXPECT_EQ(source->size(), 1u);
  EXPECT_EQ(source->ignored_count(), 1u);
}

// Answers every read as it was told to.
class ScriptedReader final : public FileReader {
 public:
  ScriptedReader(std::size_t size, std::error_code error, std::size_t bytes)
      : size_(size), error_(error), bytes_(bytes) {}
  void read_file(std::string, Room room, Done done) override {
    if (size_ > 0 && room(size_) == nullptr) return done(std::make_error_code(std::errc::operation_canceled), 0);
    done(error_, bytes_);
  }

 private:
  std::size_t size_;
  std::error_code error_;
  std::size_t bytes_;
};

TEST_F(ImageFolderTest, ReaderErrorsBecomeDataErrors) {
  folder_.write("a/1.png", "x");
  const auto source = open_image_folder(folder_.path());
  ScriptedReader shrunk(200, std::make_error_code(std::errc::no_message_available), 100);
  EXPECT_EQ(data_error_of([&] { collect(*source, 0, shrunk); }), "truncated: the file ended after 100 of 200 bytes");
  ScriptedReader broken(200, std::make_error_code(std::errc::io_error), 0);
  EXPECT_EQ(data_error_of([&] { collect(*source, 0, broken); }), "open_failed: EIO: Input/output error");
  ScriptedReader torn_down(0, std::make_error_code(std::errc::operation_canceled), 0);
  EXPECT_EQ(data_error_of([&] { collect(*source, 0, torn_down); }), "open_failed: ECANCELED: Operation canceled");
  ScriptedReader empty(0, {}, 0);
  EXPECT_EQ(data_error_of([&] { collect(*source, 0, empty); }), "empty_file: the file is empty");
}

TEST_F(ImageFolderTest, SinkWithoutRoomIsLeftAloneAndMayAskAgain) {
  folder_.write("a/1.png", "content");
  const auto source = open_image_folder(folder_.path());
  test::CollectingSink sink(source->schema());
  sink.refuse_room();
  source->read(0, sink, *files_);
  sink.wait_refused();
  files_.reset();  // all that could still come has come
  EXPECT_EQ(sink.ends(), 0);
  files_ = make_file_reader(1);
  EXPECT_EQ(collect(*source, 0, *files_)->bytes(0), "content");
}

TEST_F(ImageFolderTest, FingerprintFollowsTheFile) {
  const std::string path = folder_.write("a/1.png", "x");
  folder_.write("a/2.png", "x");
  const auto source = open_image_folder(folder_.path());
  const std::string first = source->fingerprint(0);
  EXPECT_EQ(first, source->fingerprint(0));
  EXPECT_NE(first, source->fingerprint(1));
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::nanoseconds(1));
  const std::string touched = source->fingerprint(0);
  EXPECT_NE(touched, first);
  const auto time = std::filesystem::last_write_time(path);
  folder_.write("a/1.png", "xy");
  std::filesystem::last_write_time(path, time);
  EXPECT_NE(source->fingerprint(0), touched);
}

TEST_F(ImageFolderTest, PipelineKeepsTheFolder) {
  folder_.write("a/1.png", "x");
  const auto source = open_image_folder(folder_.path());
  EXPECT_EQ(image_folder(source).plan().source, source);
  EXPECT_EQ(image_folder(folder_.path()).size(), 1u);
}

}  // namespace
}  // namespace penstock
