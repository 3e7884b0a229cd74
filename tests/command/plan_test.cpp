// `penstock plan`: its JSON, its exit codes, and that its figures are those a run keeps to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "command/program.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::ChildResult;
using test::TempFolder;
using test::with;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::uint64_t planned(const json& plan, const std::string& path) {
  for (const json& account : plan.at("accounts")) {
    if (account.at("path") == path) return account.at("planned_peak_bytes");
  }
  ADD_FAILURE() << "no account " << path << " in " << plan;
  return 0;
}

class PlanTest : public ::testing::Test {
 protected:
  ChildResult run(const std::string& command, const std::vector<std::string>& options) {
    return test::run_penstock(with(with({command}, job_), options), work_.make_folder("work"));
  }
  /// The plan of the job with these options.
  json plan(const std::vector<std::string>& options = {}) {
    const ChildResult result = run("plan", with({"--json"}, options));
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }

  TempFolder work_;
  std::vector<std::string> job_ = test::small_job(work_);
};

TEST_F(PlanTest, JsonHasEveryAccountStateAndVerdict) {
  const json plan = this->plan({"--train-cap", "100MiB", "--val-cap", "90MiB", "--device-cap", "300MiB"});
  EXPECT_EQ(plan.at("fits"), true);
  std::set<std::string> paths;
  for (const json& account : plan.at("accounts")) {
    paths.insert(account.at("path"));
    EXPECT_GT(account.at("planned_peak_bytes"), 0u) << account;
    EXPECT_TRUE(account.contains("cap_bytes")) << account;
    if (account.at("path") == "train") {
      EXPECT_EQ(account.at("cap_bytes"), 100u << 20);
    }
    if (account.at("path") == "val") {
      EXPECT_EQ(account.at("cap_bytes"), 90u << 20);
    }
    if (account.at("path") == "device") {
      EXPECT_EQ(account.at("cap_bytes"), 300u << 20);
    }
  }
  for (const char* path :
       {"train", "val", "device", "device/model", "device/train/ring", "device/val/ring", "device/step"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
  std::set<std::string> states;
  for (const json& state : plan.at("states")) {
    states.insert(state.at("name"));
    EXPECT_GT(state.at("peak_bytes"), 0u);
    EXPECT_LE(state.at("peak_bytes"), planned(plan, "device"));
  }
  EXPECT_EQ(states, (std::set<std::string>{"train", "train->val", "val", "val->train", "checkpoint"}));
  EXPECT_THAT(test::names_below(work_.path("work")), IsEmpty());
}

TEST_F(PlanTest, TextNamesWhatEachCapCovers) {
  const ChildResult result = run("plan", {});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("\n  train cap   "));
  EXPECT_THAT(result.out, HasSubstr("for its ring and its step (not given: the device cap)\n"));
  EXPECT_THAT(result.out, HasSubstr("device cap"));
  EXPECT_THAT(result.out, HasSubstr("half this machine's memory"));
  EXPECT_THAT(result.out, HasSubstr("device/train/ring"));
}

TEST_F(PlanTest, ValidationBatchIsTheLargestThatFits) {
  const std::uint64_t at_four = planned(plan({"--val-batch", "4"}), "val");
  const ChildResult result = run("plan", {"--batch", "16", "--val-cap", std::to_string(at_four)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" (not given: the largest up to the training batch that fits its cap)\n"));
}

TEST_F(PlanTest, CapOneByteBelowIsRefusedAndAtTheFigureItRuns) {
  const std::uint64_t val_peak = planned(plan({"--val-batch", "24"}), "val");
  const std::vector<std::string> below{"--val-batch", "24", "--val-cap", std::to_string(val_peak - 1)};

  const ChildResult text = run("plan", below);
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.err, AllOf(StartsWith("penstock: "), HasSubstr("val")));
  const ChildResult scripted = run("plan", with(below, {"--json"}));
  EXPECT_EQ(scripted.code, 3);
  const json refused = json::parse(scripted.out);
  EXPECT_EQ(refused.at("fits"), false);
  EXPECT_EQ(planned(refused, "val"), val_peak);
  bool has_cap = false;
  for (const json& suggestion : refused.at("suggestions")) {
    if (suggestion.at("knob") == "val cap") {
      EXPECT_EQ(suggestion.at("value"), val_peak);
      has_cap = true;
    }
  }
  EXPECT_TRUE(has_cap) << refused;

  const ChildResult train = run("train", with(below, {"--json", "--out", "run"}));
  EXPECT_EQ(train.code, 3);
  EXPECT_EQ(json::parse(train.out), refused);
  EXPECT_THAT(train.err, HasSubstr("penstock: "));
  EXPECT_THAT(test::names_below(work_.path("work")), IsEmpty());

  const ChildResult fits =
      run("train", {"--val-batch", "24", "--val-cap", std::to_string(val_peak), "--json", "--out", "run"});
  ASSERT_EQ(fits.code, 0) << fits.err;
  const json row = json::parse(fits.out.substr(0, fits.out.find('\n')));
  EXPECT_EQ(row.at("accounts").at("val").at("peak_bytes"), val_peak);
  EXPECT_EQ(row.at("accounts").at("val").at("cap_bytes"), val_peak);
}

TEST_F(PlanTest, OutputThatCannotBeWrittenIsAFailure) {
  const std::vector<std::string> full{"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"};
  const ChildResult result =
      test::run_child(with(full, test::penstock_command(with({"plan", "--json"}, job_))), work_.make_folder("work"));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, EndsWith("penstock: cannot write to standard output\n"));
}

TEST_F(PlanTest, EveryMeasuredPeakIsThePlannedOne) {
  const json plan = this->plan({"--val-batch", "24"});
  const ChildResult result = run("train", {"--val-batch", "24", "--json", "--out", "run"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json row = json::parse(result.out.substr(0, result.out.find('\n')));
  for (const json& account : plan.at("accounts")) {
    const std::string path = account.at("path");
    ASSERT_TRUE(row.at("accounts").contains(path)) << path;
    EXPECT_EQ(row.at("accounts").at(path).at("peak_bytes"), account.at("planned_peak_bytes")) << path;
  }
}

}  // namespace
}  // namespace penstock
