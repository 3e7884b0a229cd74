// Bad input: one clear line that names the thing, the right exit code, nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "command/picture_folder.h"
#include "command/program.h"

namespace penstock {
namespace {

using test::ChildResult;
using test::TempFolder;
using test::with;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// Runs `train` and `plan` with a bad option each; both refuse with one line that holds `text`, and make nothing.
class BadInputTest : public ::testing::Test {
 protected:
  void expect_refused(const std::vector<std::string>& options, const std::vector<std::string>& texts) {
    const std::string work = work_.make_folder("empty");
    for (const char* command : {"train", "plan"}) {
      const ChildResult result = test::run_penstock(with(with({command}, job_), options), work);
      EXPECT_EQ(result.code, 2) << command << ": " << result.out << result.err;
      EXPECT_EQ(result.out, "") << command;
      EXPECT_THAT(result.err, StartsWith("penstock: "));
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      for (const std::string& text : texts) EXPECT_THAT(result.err, HasSubstr(text));
      EXPECT_THAT(test::names_below(work), IsEmpty()) << command;
    }
  }

  TempFolder work_;
  std::vector<std::string> job_ = test::small_job(work_);
};

TEST_F(BadInputTest, MissingFolder) {
  expect_refused({"--train", "folder:" + work_.path("none")}, {work_.path("none"), "No such file or directory"});
  expect_refused({"--val", work_.path("none")}, {"--val", work_.path("none"), "no such folder"});
}

TEST_F(BadInputTest, EmptyFolder) {
  const std::string folder = work_.make_folder("nothing");
  expect_refused({"--train", "folder:" + folder}, {folder, "picture"});
  const std::string classes = work_.make_folder("classes/cat");
  expect_refused({"--train", work_.path("classes")}, {work_.path("classes"), "picture"});
}

TEST_F(BadInputTest, UnreadableFolder) {
  const std::string loop = work_.path("loop");
  std::filesystem::create_symlink("loop", loop);
  expect_refused({"--train", "folder:" + loop}, {loop, "symbolic link"});
  const std::string file = work_.write("file", "no folder");
  expect_refused({"--train", "folder:" + file}, {file, "Not a directory"});
  expect_refused({"--train", file}, {"--train", file, "is a file"});
}

TEST_F(BadInputTest, DamagedFirstPicture) {
  const std::string folder = test::write_picture_folder(work_, "pictures", 20);
  const std::string first = folder + "/0/0000.jpg";
  work_.write("pictures/0/0000.jpg", test::read_text(first).substr(0, 200));
  expect_refused({"--train", folder, "--val", folder}, {first, "JPEG"});
  work_.write("pictures/0/0000.jpg", "");
  expect_refused({"--train", folder, "--val", folder}, {first, "empty"});
  work_.write("pictures/0/0000.jpg", "this is text");
  expect_refused({"--train", folder, "--val", folder}, {first});
}

TEST_F(BadInputTest, ValidationClassThatTrainingLacks) {
  const std::string train = test::write_picture_folder(work_, "pictures", 20);
  const std::string val = test::write_picture_folder(work_, "others", 20);
  std::filesystem::rename(val + "/9", val + "/eleven");
  expect_refused({"--train", train, "--val", val}, {val + "/eleven", "class \"eleven\"", "10 classes"});
}

TEST_F(BadInputTest, CutIdxFile) {
  const std::string images = work_.path("train-images");
  std::filesystem::resize_file(images, 16 + 63 * 28 * 28 + 5);
  expect_refused({}, {images, "expected " + std::to_string(16 + 64 * 28 * 28)});
}

TEST_F(BadInputTest, LabelCountMismatch) {
  const std::string labels = work_.write("train-labels", test::idx_bytes({63}, std::string(63, '\1')));
  expect_refused({}, {work_.path("train-images"), "64 images", "63 labels", labels});
}

TEST_F(BadInputTest, ValidationLabelOutOfRange) {
  const std::string labels = work_.write("val-labels", test::idx_bytes({24}, std::string(23, '\1') + "\x0a"));
  expect_refused({}, {labels, "record 23: label 10", "10 classes"});
}

TEST_F(BadInputTest, NoSamples) {
  const std::string none = "idx:" + work_.write("no-images", test::idx_bytes({0, 28, 28}, "")) + "," +
                           work_.write("no-labels", test::idx_bytes({0}, ""));
  expect_refused({"--train", none}, {"--train", none, "no samples"});
  expect_refused({"--val", none}, {"--val", none, "no samples"});
}

TEST_F(BadInputTest, LabelsWhereImagesAreDue) {
  const std::string labels = work_.path("train-labels");
  expect_refused({"--train", "idx:" + labels + "," + labels}, {labels, "0x00000801"});
}

TEST_F(BadInputTest, MalformedSources) {
  expect_refused({"--train", "idx:one"}, {"--train", "idx:IMAGES,LABELS", "'idx:one'"});
  expect_refused({"--val", "idx:a,b,c"}, {"--val", "idx:IMAGES,LABELS", "'idx:a,b,c'"});
  expect_refused({"--val", "folder:"}, {"--val", "folder:PATH"});
  expect_refused({"--val", "csv:x"}, {"--val", "'csv:x'", "idx:IMAGES,LABELS"});
}

TEST_F(BadInputTest, BatchesThatAreNone) {
  expect_refused({"--batch", "0"}, {"--batch", "at least 1", "'0'"});
  expect_refused({"--batch", "-4"}, {"--batch", "'-4'"});
  expect_refused({"--batch", "12x"}, {"--batch", "'12x'"});
  expect_refused({"--val-batch", "0"}, {"--val-batch", "'0'"});
  expect_refused({"--batch", "65"}, {"65", "64"});
}

TEST_F(BadInputTest, CapsThatAreNoSize) {
  expect_refused({"--train-cap", "much"}, {"--train-cap", "much"});
  expect_refused({"--val-cap", "12XiB"}, {"--val-cap", "12XiB"});
  expect_refused({"--device-cap", "-1"}, {"--device-cap", "-1"});
  expect_refused({"--device-cap", "0"}, {"--device-cap", "above 0"});
  expect_refused({"--depth", "0"}, {"--depth", "at least 1", "'0'"});
  expect_refused({"--depth", "1025"}, {"--depth", "at most 1024", "'1025'"});
  expect_refused({"--host-budget", "1 potato"}, {"--host-budget", "1 potato"});
  expect_refused({"--host-budget", "134217727"}, {"--host-budget", "at least 128.00 MiB", "'134217727'"});
  for (const std::string cap : {"--train-cap", "--val-cap", "--device-cap", "--host-budget"}) {
    expect_refused({cap, ""}, {cap, "a value is expected, got ''"});
  }
}

TEST_F(BadInputTest, CachesThatAreNone) {
  expect_refused({"--cache", "1GiB"}, {"--cache", "memory:SIZE", "'1GiB'"});
  expect_refused({"--cache", "memory:lots"}, {"--cache", "lots"});
}

TEST_F(BadInputTest, UnknownNames) {
  expect_refused({"--model", "resnet1001"}, {"resnet1001", "resnet9", "mlp"});
  expect_refused({"--recipe", "soup"}, {"soup", "fashion"});
  expect_refused({"--device", "abacus"}, {"abacus"});
  expect_refused({"--colour", "red"}, {"--colour"});
}

TEST_F(BadInputTest, NumbersThatAreNone) {
  expect_refused({"--epochs", "0"}, {"--epochs", "at least 1"});
  expect_refused({"--lr", "fast"}, {"--lr", "'fast'"});
  expect_refused({"--weight-decay", "-1"}, {"--weight-decay", "'-1'"});
  expect_refused({"--width", "0"}, {"--width", "at least 1"});
  expect_refused({"--threads", "two"}, {"--threads", "'two'"});
  expect_refused({"--seed", "1.5"}, {"--seed", "'1.5'"});
}

TEST_F(BadInputTest, MissingOptions) {
  const std::string work = work_.make_folder("empty");
  for (const std::string missing : {"--train", "--val", "--batch", "--epochs"}) {
    std::vector<std::string> arguments{"train"};
    for (std::size_t i = 0; i + 1 < job_.size(); i += 2) {
      if (job_[i] != missing) arguments = with(arguments, {job_[i], job_[i + 1]});
    }
    const ChildResult result = test::run_penstock(arguments, work);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, AllOf(StartsWith("penstock: " + missing + " is required"), EndsWith("\n")));
    EXPECT_THAT(test::names_below(work), IsEmpty());
  }
}

TEST_F(BadInputTest, NoCommand) {
  const ChildResult none = test::run_penstock({}, work_.path());
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "penstock: a command is expected, train, plan or bench (penstock --help)\n");
  const ChildResult unknown = test::run_penstock({"dance"}, work_.path());
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("dance"));
}

TEST_F(BadInputTest, RunFolderThatCannotBe) {
  const std::string file = work_.write("file", "text");
  const std::vector<std::string> train = with({"train"}, job_);
  const ChildResult below_file = test::run_penstock(with(train, {"--out", file + "/run"}), work_.path());
  EXPECT_EQ(below_file.code, 2);
  EXPECT_THAT(below_file.err, AllOf(HasSubstr("--out"), HasSubstr("'" + file + "' is no folder")));

  work_.write("taken/notes.txt", "mine");
  const ChildResult taken = test::run_penstock(with(train, {"--out", work_.path("taken")}), work_.path());
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.err, HasSubstr("'" + work_.path("taken") + "' is not empty; name another folder\n"));
  EXPECT_EQ(test::read_text(work_.path("taken/notes.txt")), "mine");
}

TEST_F(BadInputTest, ResumeFromWhatIsNoCheckpoint) {
  expect_refused({"--resume", work_.path("none")}, {work_.path("none")});
  const std::string file = work_.write("file", "this is no checkpoint, and yet quite long");
  expect_refused({"--resume", file}, {file});
}

/// A bad picture that is met only in mid run: exit code 1, its path, and the last checkpoint as it was.
TEST_F(BadInputTest, BadPictureInMidRunKeepsTheLastCheckpoint) {
  const std::string train = test::write_picture_folder(work_, "pictures", 40);
  const std::string val = test::write_picture_folder(work_, "others", 20);
  const std::string bad = val + "/3/0003.jpg";
  work_.write("others/3/0003.jpg", test::read_text(bad).substr(0, 300));
  const std::string out = work_.path("run");
  const ChildResult result = test::run_penstock(
      with({"train"}, with(job_, {"--train", train, "--val", "folder:" + val, "--val-batch", "4", "--out", out})),
      work_.path());
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err, AllOf(StartsWith("penstock: "), HasSubstr(bad), HasSubstr("the last checkpoint is " + out)));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;

  // The checkpoint of epoch 1, written before validation, goes on once the picture is mended.
  std::filesystem::copy_file(val + "/4/0004.jpg", bad, std::filesystem::copy_options::overwrite_existing);
  const ChildResult resumed = test::run_penstock(
      with({"train"}, with(job_, {"--train", train, "--val", "folder:" + val, "--val-batch", "4", "--resume", out})),
      work_.path());
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("\ndone: "));
}

}  // namespace
}  // namespace penstock
