// Where a run is written to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/command/run_folder.h>

#include "support/source_temp_folder.h"

namespace penstock::trainer::command {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ChooseRunFolderTest, TakesAFolderThatIsNotThereOrEmpty) {
  const test::TempFolder folder;
  EXPECT_EQ(choose_run_folder(folder.path("a/b"), {}), fs::path(folder.path("a/b")));
  EXPECT_EQ(choose_run_folder(folder.make_folder("empty"), {}), fs::path(folder.path("empty")));
  EXPECT_FALSE(fs::exists(folder.path("a")));
}

TEST(ChooseRunFolderTest, RefusesAFolderThatHoldsSomething) {
  const test::TempFolder folder;
  folder.write("run/notes", "x");
  EXPECT_THAT([&] { choose_run_folder(folder.path("run"), {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'" + folder.path("run") + "' is not empty")));
}

TEST(ChooseRunFolderTest, SaysWhatCanBeDoneAboutAnEarlierRun) {
  const test::TempFolder folder;
  const std::string run = folder.path("run");
  folder.write("run/config.json", "{}");
  EXPECT_THAT([&] { choose_run_folder(run, {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("or remove it: it is of a run that wrote no checkpoint")));
  folder.write("run/checkpoints/epoch-000001.safetensors", "x");
  EXPECT_THAT([&] { choose_run_folder(run, {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("or go on with that run: --resume " + run)));
}

TEST(ChooseRunFolderTest, GoesOnInTheResumedRun) {
  const test::TempFolder folder;
  const fs::path checkpoint = folder.write("run/checkpoints/one.safetensors", "x");
  const fs::path run = folder.path("run");
  EXPECT_EQ(choose_run_folder({}, run), run);
  EXPECT_EQ(choose_run_folder({}, run / "checkpoints"), run);
  EXPECT_EQ(choose_run_folder({}, checkpoint), run);
  EXPECT_EQ(choose_run_folder(run, checkpoint), run);
  EXPECT_EQ(choose_run_folder(folder.path("other"), checkpoint), fs::path(folder.path("other")));
}

TEST(ChooseRunFolderTest, RefusesAPlaceBelowAFile) {
  const test::TempFolder folder;
  const std::string file = folder.write("file", "x");
  EXPECT_THAT([&] { choose_run_folder(file + "/run", {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'" + file + "' is no folder")));
}

}  // namespace
}  // namespace penstock::trainer::command
