// Inputs that troubled users of other tools. PENSTOCK_CASES names the folder that make_cases.py wrote, with
// expected.json.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/file_reader.h>
#include <penstock/pipeline/source/idx.h>
#include <penstock/pipeline/source/image_folder.h>
#include <support/source_collect.h>
#include <support/source_plain_user.h>
#include <support/source_temp_folder.h>

namespace penstock {
namespace {

using nlohmann::json;
using test::collect;
using test::data_error_of;
using test::source_error_of;
using testing::ElementsAre;
using testing::StartsWith;

class CasesTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const root = std::getenv("PENSTOCK_CASES");
    if (root == nullptr) GTEST_SKIP() << "PENSTOCK_CASES names no folder made by make_cases.py";
    root_ = root;
    expected_ = json::parse(std::ifstream(root_ + "/expected.json"));
  }

  // [path below the folder, label] of each sample, as expected.json writes it.
  json listing(const ImageFolder& source, const std::string& root) {
    json all = json::array();
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      all.push_back({source.describe(i).substr(root.size() + 1), collect(source, i, *files_)->label(1)});
    }
    return all;
  }

  std::string root_;
  json expected_;
  std::shared_ptr<FileReader> files_ = make_file_reader(2);
};

TEST_F(CasesTest, H13HiddenFoldersAndDroppings) {
  const std::string root = root_ + "/H13/train";
  const auto source = open_image_folder(root);
  EXPECT_EQ(json(source->classes()), expected_["H13"]["classes"]);
  EXPECT_EQ(listing(*source, root), expected_["H13"]["samples"]);
  EXPECT_EQ(source->ignored_count(), 7u);
  const auto with_hidden = open_image_folder(root, {.include_hidden = true});
  EXPECT_THAT(with_hidden->classes(), ElementsAre(".ipynb_checkpoints", "cat", "dog"));
  EXPECT_EQ(with_hidden->size(), 7u);
}

TEST_F(CasesTest, H14ValidationKeepsTheNumbersOfTraining) {
  const json& expected = expected_["H14"];
  const auto train = open_image_folder(root_ + "/H14/train");
  EXPECT_EQ(json(train->classes()), expected["train_classes"]);
  for (const std::string name : {"val", "val_empty_folder"}) {
    const std::string root = root_ + "/H14/" + name;
    const auto source = open_image_folder(root, {.classes = train->classes()});
    EXPECT_EQ(listing(*source, root), expected[name]);
    EXPECT_THAT(source->warnings(), ElementsAre("class \"180\" has no pictures"));
  }
  EXPECT_EQ(source_error_of([&] { open_image_folder(root_ + "/H14/val_extra_class", {.classes = train->classes()}); }),
            "unknown_class: " + root_ + "/H14/val_extra_class/45: class \"45\" is not among the 4 classes given");
}

TEST_F(CasesTest, H15OrderIsTheSameOnEveryFileSystem) {
  const std::string root = root_ + "/H15";
  const auto source = open_image_folder(root);
  EXPECT_EQ(json(source->classes()), expected_["H15"]["classes"]);
  EXPECT_EQ(listing(*source, root), expected_["H15"]["samples"]);
}

TEST_F(CasesTest, H17BadFilesSayWhichAndWhy) {
  const test::TempFolder copy;  // one file is deleted below
  const std::string& root = copy.path();
  copy.make_folder("x");
  for (const auto& entry : std::filesystem::directory_iterator(root_ + "/H17/x")) {
    const std::string name = entry.path().filename();
    if (name != "no_permission.jpg") std::filesystem::copy(entry.path(), root + "/x/" + name);
  }
  std::filesystem::permissions(copy.write("x/no_permission.jpg", "unseen"), std::filesystem::perms::none);
  const auto source = open_image_folder(root);
  ASSERT_EQ(source->size(), 7u);
  std::filesystem::remove(root + "/x/removed_later.jpg");
  {
    const test::PlainUser plain;
    files_ = make_file_reader(2);
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::pair<std::string, std::string>> errors;
    for (std::uint64_t i = 0; i < source->size(); ++i) {
      const std::string error = data_error_of([&] { collect(*source, i, *files_); });
      if (!error.empty()) errors.emplace_back(source->describe(i), error);
    }
    // text.jpg is read: that its bytes are no picture is for the decoder to say.
    EXPECT_THAT(errors, ElementsAre(std::pair(root + "/x/empty.jpg", "empty_file: the file is empty"),
                                    std::pair(root + "/x/no_permission.jpg", "open_failed: EACCES: Permission denied"),
                                    std::pair(root + "/x/removed_later.jpg",
                                              "open_failed: ENOENT: No such file or directory")));
  }
}

TEST_F(CasesTest, H18BrokenIdxFilesAreRefusedAtOpen) {
  for (const std::string name : {"short", "count", "magic", "empty"}) {
    const json& expected = expected_["H18"][name];
    const std::string folder = root_ + "/H18/" + name;
    const std::string images = folder + "/images-idx3-ubyte";
    const std::string error = source_error_of([&] { idx(images, folder + "/labels-idx1-ubyte"); });
    const std::string detail = expected.value("detail", "the file is empty");
    EXPECT_THAT(error, StartsWith(expected["error"].get<std::string>() + ": " + images + ": " + detail));
  }
}

}  // namespace
}  // namespace penstock
