// Ctrl-C and SIGTERM in mid run: it ends soon, with the signal's exit code and a checkpoint that goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>

#include "command/program.h"

namespace penstock {
namespace {

using test::ChildProcess;
using test::ChildResult;
using test::TempFolder;
using test::with;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class StopTest : public ::testing::Test {
 protected:
  /// A run that would take hours, stopped in the epoch after the first row.
  ChildResult stop_by(int signal) {
    ChildProcess child(test::penstock_command(with(with({"train"}, test::small_job(work_)),
                                                   {"--epochs", "1000000", "--json", "--out", "run"})),
                       work_.path());
    EXPECT_THAT(child.read_line(), HasSubstr("\"epoch\":1"));
    const auto begin = std::chrono::steady_clock::now();
    child.send(signal);
    ChildResult result = child.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    return result;
  }

  TempFolder work_;
};

TEST_F(StopTest, InterruptLeavesACheckpointThatGoesOn) {
  const ChildResult result = stop_by(SIGINT);
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("penstock: stopped by SIGINT after "), HasSubstr("the last checkpoint is run/")));
  EXPECT_THAT(test::names_below(work_.path("run")), Each(AllOf(Not(HasSubstr("tmp")), Not(HasSubstr("partial")))));

  ChildProcess resumed(test::penstock_command(with(with({"train"}, test::small_job(work_)),
                                                   {"--epochs", "1000000", "--json", "--resume", "run"})),
                       work_.path());
  EXPECT_THAT(resumed.read_line(), HasSubstr("\"epoch\":"));
  resumed.send(SIGINT);
  EXPECT_EQ(resumed.wait().code, 130);
}

TEST_F(StopTest, TerminateHasItsOwnCode) {
  const ChildResult result = stop_by(SIGTERM);
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.err, HasSubstr("stopped by SIGTERM"));
}

TEST_F(StopTest, SecondSignalEndsItAtOnce) {
  ChildProcess child(test::penstock_command(with(with({"train"}, test::small_job(work_)),
                                                 {"--epochs", "1000000", "--json", "--out", "run"})),
                     work_.path());
  child.read_line();
  child.send(SIGTERM);
  child.send(SIGINT);
  const ChildResult result = child.wait();
  EXPECT_TRUE(result.code == 130 || result.code == 143) << result.code << result.err;
}

}  // namespace
}  // namespace penstock
