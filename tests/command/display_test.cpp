// What people see: progress and the rows of the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>

#include <penstock/trainer/command/progress.h>
#include <penstock/trainer/command/table.h>

namespace penstock::trainer::command {
namespace {

using ::testing::HasSubstr;

StepProgress half_way() {
  StepProgress progress;
  progress.epoch = 2;
  progress.epochs = 3;
  progress.step = 234;
  progress.steps = 468;
  progress.images_per_s = 1993.4;
  progress.data_wait_share = 0.0123;
  progress.run_seconds_left = 126.2;
  return progress;
}

TEST(ProgressTest, SaysSpeedWaitAndTimeLeft) {
  EXPECT_EQ(progress_text(half_way(), false), "epoch 2/3 train  50%  1993 images/s  data wait 1.2%  2:07 left");
  EXPECT_THAT(progress_text(half_way(), true), HasSubstr("50% [##########          ]  1993"));
  StepProgress last = half_way();
  last.phase = Phase::kVal;
  last.step = 468;
  last.run_seconds_left = 3723;
  EXPECT_EQ(progress_text(last, true),
            "epoch 2/3 val   100% [####################]  1993 images/s  data wait 1.2%  1:02:03 left");
}

TEST(ProgressTest, SaysNoSpeedBeforeAStepIsDone) {
  StepProgress first = half_way();
  first.images_per_s = 0;
  first.run_seconds_left = 0;
  EXPECT_EQ(progress_text(first, false), "epoch 2/3 train  50%  data wait 1.2%");
}

TEST(ProgressTest, BarIsDrawnOverItselfAndWipedForText) {
  std::ostringstream out;
  Progress progress(out, Progress::Style::kTerminal);
  const auto start = std::chrono::steady_clock::time_point{} + std::chrono::hours(1);
  progress.show(half_way(), start);
  progress.show(half_way(), start + std::chrono::milliseconds(99));
  const std::string bar = "\r" + progress_text(half_way(), true);
  EXPECT_EQ(out.str(), bar);
  progress.show(half_way(), start + std::chrono::milliseconds(100));
  EXPECT_EQ(out.str(), bar + bar);
  progress.print("row\n");
  EXPECT_EQ(out.str(), bar + bar + "\r" + std::string(bar.size() - 1, ' ') + "\rrow\n");
  progress.finish();
  EXPECT_THAT(out.str(), ::testing::EndsWith("\rrow\n"));
}

TEST(ProgressTest, PlainLinesAreFarApart) {
  std::ostringstream out;
  Progress progress(out, Progress::Style::kPlain);
  const auto start = std::chrono::steady_clock::time_point{} + std::chrono::hours(1);
  progress.show(half_way(), start);
  progress.show(half_way(), start + std::chrono::seconds(9));
  EXPECT_EQ(out.str(), "");
  progress.show(half_way(), start + std::chrono::seconds(10));
  progress.show(half_way(), start + std::chrono::seconds(19));
  EXPECT_EQ(out.str(), progress_text(half_way(), false) + "\n");
}

TEST(TableTest, RowHasEveryFigureAndEveryPeakAgainstItsCap) {
  EpochRow row;
  row.epoch = 3;
  row.train_loss = 0.81234;
  row.train_top1 = 0.7811;
  row.val_loss = 0.5512;
  row.val_top1 = 0.8692;
  row.val_top5 = 0.9951;
  row.images_per_s = 1993.4;
  row.data_wait_share = 0.0123;
  row.accounts = {{"train", 0, 2u << 20, 128u << 20}, {"device/model", 0, 3u << 20, gpu::kNoCap}};
  EXPECT_EQ(epoch_text(row),
            "    3      0.8123  78.11%      0.5512  86.92%  99.51%       1993       1.2%\n"
            "       peak  train 2.00 MiB of 128.00 MiB,  device/model 3.00 MiB\n");
  const std::string heading = epoch_heading();
  EXPECT_EQ(heading.size(), epoch_text(row).find('\n') + 1) << "columns end where their headings end";
  row.train_top1 = row.val_top1 = row.val_top5 = row.data_wait_share = 1;
  EXPECT_EQ(heading.size(), epoch_text(row).find('\n') + 1) << "with 100.00% too";
}

}  // namespace
}  // namespace penstock::trainer::command
