// `penstock train` from end to end: what it prints, what it writes, that it learns, that it goes on where it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/source/idx_file.h>

#include "command/picture_folder.h"
#include "command/program.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::ChildResult;
using test::TempFolder;
using test::with;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TrainTest : public ::testing::Test {
 protected:
  ChildResult train(const std::vector<std::string>& options) {
    return test::run_penstock(with(with({"train"}, job_), options), work_.make_folder("work"));
  }
  fs::path work(const std::string& name) const { return work_.path("work/" + name); }

  TempFolder work_;
  std::vector<std::string> job_ = test::small_job(work_);
};

std::vector<json> rows(const std::string& lines) {
  std::vector<json> found;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) found.push_back(json::parse(line));
  return found;
}

/// The hash of the last weights, as the program prints it.
std::string weights(const ChildResult& result) {
  const std::size_t at = result.out.find("weights ");
  return at == result.out.npos ? "none: " + result.err : result.out.substr(at, 8 + 16);
}

TEST_F(TrainTest, PrintsThePlanFirstAndARowAnEpoch) {
  const ChildResult result = train({"--out", "run", "--train-cap", "200MiB"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::size_t settings = result.out.find("  batch       16; of each epoch 0 samples fill no batch");
  const std::size_t table = result.out.find("device/step");
  const std::size_t heading = result.out.find("epoch  train loss");
  const std::size_t first = result.out.find("\n    1  ");
  const std::size_t second = result.out.find("\n    2  ");
  const std::size_t done = result.out.find("\ndone: 8 steps");
  EXPECT_LT(settings, table);
  EXPECT_LT(table, heading);
  EXPECT_LT(heading, first);
  EXPECT_LT(first, second);
  EXPECT_LT(second, done);
  EXPECT_NE(done, result.out.npos) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("train "), HasSubstr(" of 200.00 MiB")));
}

TEST_F(TrainTest, WritesTheRunFolder) {
  ASSERT_EQ(train({"--out", "run"}).code, 0);
  for (const char* name : {"config.json", "classes.txt", "plan.json", "metrics.jsonl"}) {
    EXPECT_TRUE(fs::is_regular_file(work("run") / name)) << name;
  }
  EXPECT_EQ(test::read_text(work("run/classes.txt")), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  const std::vector<json> lines = rows(test::read_text(work("run/metrics.jsonl")));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].at("epoch"), 2);
  EXPECT_FALSE(test::names_below(work("run/checkpoints")).empty());
}

TEST_F(TrainTest, LearnsWhatCanBeLearned) {
  const ChildResult result = train({"--epochs", "30", "--width", "64", "--lr", "0.05", "--json", "--out", "run"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector<json> lines = rows(result.out);
  ASSERT_EQ(lines.size(), 30u);
  EXPECT_LT(lines[29].at("train_loss"), lines[0].at("train_loss"));
  EXPECT_GT(lines[29].at("val_top1"), 0.9);
  EXPECT_GE(lines[29].at("val_top5"), lines[29].at("val_top1"));
}

TEST_F(TrainTest, TakesTheNextFreeRunFolder) {
  const ChildResult first = train({"--epochs", "1"});
  const ChildResult second = train({"--epochs", "1"});
  EXPECT_THAT(first.out, HasSubstr("run folder: runs/1\n"));
  EXPECT_THAT(second.out, HasSubstr("run folder: runs/2\n"));
  EXPECT_TRUE(fs::is_regular_file(work("runs/2/config.json")));
}

TEST_F(TrainTest, ThreadsAndCacheChangeNoWeight) {
  const std::string plain = weights(train({"--threads", "1", "--seed", "5"}));
  EXPECT_EQ(weights(train({"--threads", "4", "--seed", "5", "--cache", "memory:64MiB"})), plain);
  EXPECT_NE(weights(train({"--threads", "1", "--seed", "6"})), plain);
}

TEST_F(TrainTest, ResumesIntoTheSameWeights) {
  const std::string whole = weights(train({"--epochs", "3", "--out", "whole"}));
  // A run of three epochs whose validation cannot go on after the first: its checkpoint is what a killed run leaves.
  const ChildResult complete = train({"--epochs", "3", "--out", "cut"});
  ASSERT_EQ(complete.code, 0) << complete.err;
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::recursive_directory_iterator(work("cut/checkpoints"))) {
    if (entry.is_regular_file()) checkpoints.push_back(entry.path());
  }
  ASSERT_FALSE(checkpoints.empty());
  for (const fs::path& checkpoint : checkpoints) {
    if (checkpoint.extension() != ".safetensors") continue;
    const ChildResult resumed =
        train({"--epochs", "3", "--resume", checkpoint.string(), "--out", "from-" + checkpoint.stem().string()});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(weights(resumed), whole) << checkpoint;
  }
}

TEST_F(TrainTest, RefusesToResumeAnotherJob) {
  ASSERT_EQ(train({"--out", "run"}).code, 0);
  const ChildResult other = train({"--resume", "run", "--batch", "8", "--seed", "9"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("batch"), HasSubstr("seed")));
  EXPECT_EQ(std::count(other.err.begin(), other.err.end(), '\n'), 1) << other.err;
}

TEST_F(TrainTest, SaysWhichClassesHaveNoSamples) {
  const std::string labels = work_.write("train-labels", test::idx_bytes({64}, std::string(63, '\1') + "\x63"));
  EXPECT_THAT(train({"--epochs", "1"}).out, HasSubstr(labels + ": 98 of the 100 classes, 0 to 99, have no samples"));
}

/// Two folders of JPEG files made from Fashion-MNIST, of which validation lacks a class.
TEST_F(TrainTest, TrainsOnFoldersOfPictures) {
  const std::string data = PENSTOCK_FASHION_MNIST;
  if (!fs::exists(data)) GTEST_SKIP() << "the package dataset-fashion-mnist is not installed: " << data;
  const auto make = [&](const std::string& name, const std::string& part, std::size_t count) {
    const source::IdxFile images =
        source::read_idx_file(data + "/" + part + "-images-idx3-ubyte.gz", source::IdxContent::kImages);
    const source::IdxFile labels =
        source::read_idx_file(data + "/" + part + "-labels-idx1-ubyte.gz", source::IdxContent::kLabels);
    return test::write_picture_folder(work_, name,
                                      {reinterpret_cast<const std::uint8_t*>(images.bytes.data()), count * 28 * 28},
                                      {reinterpret_cast<const std::uint8_t*>(labels.bytes.data()), count});
  };
  const std::string train_folder = make("jpeg-train", "train", 600);
  const std::string val_folder = make("jpeg-val", "t10k", 200);
  fs::remove_all(val_folder + "/3");
  work_.write("jpeg-val/.hidden/droppings.jpg", "x");
  const ChildResult result = train({"--train", "folder:" + train_folder, "--val", val_folder, "--model", "resnet9",
                                    "--width", "8", "--batch", "50", "--epochs", "2", "--json", "--out", "run"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector<json> lines = rows(result.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_GT(lines[1].at("val_top1"), 0.4) << "chance is 0.1";
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("class \"3\" has no pictures"), HasSubstr("600 samples"), HasSubstr("hidden: left out")));
  EXPECT_EQ(test::read_text(work("run/classes.txt")), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

}  // namespace
}  // namespace penstock
