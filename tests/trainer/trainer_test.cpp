#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <penstock/cache/memory_store.h>
#include <penstock/pipeline/error.h>
#include <penstock/trainer/checkpoint.h>
#include <penstock/trainer/run_folder.h>
#include <penstock/trainer/whole_file.h>

#include "support/source_temp_folder.h"
#include "trainer/job_fixture.h"

namespace penstock::trainer {
namespace {

using test::Job;
using test::make_job;
using test::run_job;
using test::separable_set;
using test::small_options;
using test::Watcher;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

void expect_equal_figures(const std::vector<EpochRow>& a, const std::vector<EpochRow>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].epoch, b[i].epoch);
    EXPECT_EQ(a[i].train_loss, b[i].train_loss);
    EXPECT_EQ(a[i].train_top1, b[i].train_top1);
    EXPECT_EQ(a[i].val_loss, b[i].val_loss);
    EXPECT_EQ(a[i].val_top1, b[i].val_top1);
  }
}

TEST(TrainerTest, LearnsASeparableSet) {
  for (const char* const model : {"mlp", "resnet9"}) {
    TrainerOptions options = small_options();
    options.model = model;
    options.width = options.model == "mlp" ? 16 : 4;
    options.epochs = 12;
    options.learning_rate = 0.1;
    const TrainResult result = run_job(options);
    ASSERT_EQ(result.rows.size(), 12U);
    EXPECT_GT(result.rows.back().val_top1, 0.85) << model << ", chance is 0.25";
    EXPECT_GT(result.rows.back().train_top1, 0.85) << model;
    EXPECT_LT(result.rows.back().val_loss, result.rows.front().val_loss) << model;
    EXPECT_EQ(result.rows.back().val_top5, 1.0) << "there are 4 classes";
    EXPECT_EQ(result.steps, 12U * 6U);
  }
}

TEST(TrainerTest, WeightsDependOnNoThreadsDepthOrCache) {
  TrainerOptions options = small_options();
  const TrainResult truth = run_job(options, {.threads = 1, .train_cache = {}, .val_cache = {}});
  for (const std::size_t threads : {1, 4}) {
    for (const std::size_t depth : {1, 4}) {
      for (const bool cached : {false, true}) {
        options.depth = depth;
        options.pinned_depth = depth + 1;
        test::RunSettings settings{.threads = threads, .train_cache = {}, .val_cache = {}};
        if (cached) settings.train_cache = cache::memory(1 << 20);
        if (cached) settings.val_cache = cache::memory(1 << 20);
        const TrainResult result = run_job(options, settings);
        EXPECT_EQ(result.weights_hash, truth.weights_hash)
            << threads << " threads, depth " << depth << (cached ? ", cached" : "");
        expect_equal_figures(result.rows, truth.rows);
      }
    }
  }
  options.seed = 12;
  EXPECT_NE(run_job(options).weights_hash, truth.weights_hash);
}

TEST(TrainerTest, MovesItsJobAndLetsGoOfTheOneItHeld) {
  const TrainerOptions options = small_options();
  TrainerOptions others = options;
  others.seed = 12;
  Job job = make_job(options);
  Job other = make_job(others);
  Trainer moved(std::move(job.trainer));
  other.trainer = std::move(moved);
  EXPECT_EQ(other.trainer.summary().batch, options.batch);
  Watcher watcher;
  EXPECT_EQ(other.trainer.run(watcher).weights_hash, run_job(options).weights_hash);
}

TEST(TrainerTest, ResumedRunEndsLikeTheRunThatWasNotStopped) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.model = "resnet9";
  options.width = 2;
  options.checkpoint_steps = 2;
  options.out = temp.path("whole");
  std::vector<std::filesystem::path> kept;
  Watcher watcher;
  watcher.checkpoint = [&](const std::filesystem::path& file) {
    kept.push_back(temp.path(std::to_string(kept.size()) + ".safetensors"));
    std::filesystem::copy_file(file, kept.back());
  };
  Job job = make_job(options);
  const TrainResult whole = job.trainer.run(watcher);
  ASSERT_EQ(kept.size(), 9U) << "6 steps an epoch: after 2, 4 and at the end, three times";
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (const std::size_t depth : {1, 4}) {
      TrainerOptions resumed = options;
      resumed.out = temp.path("resumed" + std::to_string(i) + "." + std::to_string(depth));
      resumed.resume = kept[i];
      resumed.depth = depth;
      resumed.val_batch = 7;
      resumed.checkpoint_steps = 0;
      const TrainResult result =
          run_job(resumed, {.threads = depth, .train_cache = cache::memory(1 << 20), .val_cache = {}});
      EXPECT_EQ(result.weights_hash, whole.weights_hash) << i << " at depth " << depth;
      ASSERT_EQ(result.rows.size(), 3U);
      EXPECT_EQ(result.rows[2].train_loss, whole.rows[2].train_loss);
      EXPECT_EQ(result.rows[0].train_loss, whole.rows[0].train_loss);
      EXPECT_EQ(result.rows[2].val_top1, whole.rows[2].val_top1);
    }
  }
}

TEST(TrainerTest, StopEndsBetweenStepsAndLeavesAValidCheckpoint) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  const TrainResult whole = run_job(options);
  options.out = temp.path("run");
  std::stop_source stop;
  Watcher watcher;
  watcher.step = [&](const StepProgress& progress) {
    if (progress.phase == Phase::kTrain && progress.epoch == 2 && progress.step == 3) stop.request_stop();
  };
  Job job = make_job(options);
  const TrainResult stopped = job.trainer.run(watcher, stop.get_token());
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 9U);
  EXPECT_EQ(stopped.rows.size(), 1U);
  options.resume = options.out;
  const TrainResult resumed = run_job(options);
  EXPECT_FALSE(resumed.stopped);
  EXPECT_EQ(resumed.weights_hash, whole.weights_hash);
  expect_equal_figures(resumed.rows, whole.rows);
}

TEST(TrainerTest, StoppedInValidationResumesWithIt) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.epochs = 1;
  const TrainResult whole = run_job(options);
  options.out = temp.path("run");
  std::stop_source stop;
  Watcher watcher;
  watcher.step = [&](const StepProgress& progress) {
    if (progress.phase == Phase::kVal) stop.request_stop();
  };
  Job job = make_job(options);
  const TrainResult stopped = job.trainer.run(watcher, stop.get_token());
  EXPECT_TRUE(stopped.stopped);
  EXPECT_TRUE(stopped.rows.empty());
  options.resume = options.out;
  Job again = make_job(options);
  Watcher second;
  const TrainResult resumed = again.trainer.run(second);
  EXPECT_EQ(resumed.steps, 0U);
  EXPECT_THAT(second.notices, Contains(HasSubstr("validation first")));
  expect_equal_figures(resumed.rows, whole.rows);
}

TEST(TrainerTest, MeasuredPeaksEqualThePlanAtItsFigure) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.model = "resnet9";
  options.width = 4;
  std::uint64_t planned_val = 0;
  {
    const Job job = make_job(options);
    for (const gpu::PlannedAccount& account : job.trainer.plan().accounts) {
      if (account.path == "val") planned_val = account.planned_peak_bytes;
    }
  }
  ASSERT_GT(planned_val, 0U);
  options.val_cap_bytes = planned_val;
  options.out = temp.path("fits");
  Job job = make_job(options);
  ASSERT_TRUE(job.trainer.plan().fits);
  std::uint64_t allocations = 0;
  Watcher watcher;
  watcher.step = [&](const StepProgress&) {
    if (allocations == 0) allocations = job.device->allocation_count();
  };
  const TrainResult result = job.trainer.run(watcher);
  EXPECT_EQ(job.device->allocation_count(), allocations) << "nothing is allocated after preflight";
  for (const EpochRow& row : result.rows) {
    std::map<std::string, std::uint64_t> measured;
    for (const gpu::AccountFigures& account : row.accounts) measured[account.path] = account.peak_bytes;
    for (const gpu::PlannedAccount& account : job.trainer.plan().accounts) {
      ASSERT_EQ(measured.count(account.path), 1U) << account.path;
      EXPECT_EQ(measured[account.path], account.planned_peak_bytes) << account.path << " in epoch " << row.epoch;
    }
  }

  options.val_cap_bytes = planned_val - 1;
  options.out = temp.path("refused");
  Job refused = make_job(options);
  EXPECT_FALSE(refused.trainer.plan().fits);
  Watcher quiet;
  EXPECT_THAT([&] { refused.trainer.run(quiet); }, ThrowsMessage<gpu::PlanRefused>(HasSubstr("val")));
  EXPECT_FALSE(std::filesystem::exists(options.out)) << "nothing is written";
  EXPECT_EQ(refused.device->allocation_count(), 0U);
}

TEST(TrainerTest, ChoosesTheLargestValidationBatchThatFits) {
  TrainerOptions options = small_options();
  options.model = "resnet9";
  options.width = 64;
  options.batch = 40;
  options.val_batch = 0;
  EXPECT_EQ(make_job(options).trainer.summary().val_batch, 40U) << "never above the training batch";
  options.val_cap_bytes = 2 * gpu::kSlabGranule;
  const Job job = make_job(options);
  const std::size_t chosen = job.trainer.summary().val_batch;
  EXPECT_TRUE(job.trainer.plan().fits);
  EXPECT_LT(chosen, 40U);
  options.val_batch = chosen + 1;
  EXPECT_FALSE(make_job(options).trainer.plan().fits);
}

TEST(TrainerTest, ValidationMetricsDependOnNoBatchSize) {
  std::vector<EpochRow> rows;
  for (const std::size_t batch : {1, 7, 64}) {
    TrainerOptions options = small_options();
    options.model = "resnet9";
    options.width = 2;
    options.epochs = 1;
    options.val_batch = batch;
    rows.push_back(run_job(options).rows.back());
  }
  for (const EpochRow& row : rows) {
    EXPECT_NEAR(row.val_loss, rows[0].val_loss, 1e-5);
    EXPECT_NEAR(row.val_top1, rows[0].val_top1, 1e-9);
    EXPECT_NEAR(row.val_top1 * 42, std::round(row.val_top1 * 42), 1e-9) << "of 42 samples";
  }
}

TEST(TrainerTest, SaysNoSpeedBeforeAStepIsDone) {
  TrainerOptions options = small_options();
  options.batch = 4;  // 25 steps: more than the host can run ahead
  Watcher watcher;
  watcher.step = [](const StepProgress& progress) {
    const bool first = progress.step == 1;  // just enqueued, and none before it
    if (first) {
      EXPECT_EQ(progress.images_per_s, 0);
    }
    if (first || progress.phase == Phase::kVal) {
      EXPECT_EQ(progress.run_seconds_left, 0);
    }
    if (progress.step == 25) {
      EXPECT_GT(progress.images_per_s, 0);
    }
    if (progress.step == 24 && progress.epoch < 3) {
      EXPECT_GT(progress.run_seconds_left, 0);
    }
  };
  make_job(options).trainer.run(watcher);
}

TEST(TrainerTest, ValidationDataChangeNoWeight) {
  TrainerOptions options = small_options();
  options.model = "resnet9";
  options.width = 2;
  Watcher watcher;
  Job a = make_job(options, separable_set(100, 1), separable_set(42, 2));
  Job b = make_job(options, separable_set(100, 1), separable_set(9, 3));
  EXPECT_EQ(a.trainer.run(watcher).weights_hash, b.trainer.run(watcher).weights_hash);
}

TEST(TrainerTest, LastTrainingSampleAloneIsLeftOutAndCounted) {
  TrainerOptions options = small_options();
  options.batch = 4;
  options.val_batch = 4;
  options.epochs = 2;
  Job job = make_job(options, separable_set(9, 1), separable_set(9, 2));
  EXPECT_EQ(job.trainer.summary().dropped_per_epoch, 1U);
  Watcher watcher;
  const TrainResult result = job.trainer.run(watcher);
  EXPECT_EQ(result.steps, 4U);
  EXPECT_THAT(watcher.notices, Contains(HasSubstr("1 of 9 samples are left out of each epoch")));
  EXPECT_NEAR(result.rows[0].val_top1 * 9, std::round(result.rows[0].val_top1 * 9), 1e-9) << "validation sees all 9";
}

TEST(TrainerTest, LabelOutOfRangeIsFoundOnTheHost) {
  for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{255}, std::int64_t{-1}}) {
    const Pipeline train =
        separable_set(32, 1).map("label", [bad](std::int64_t label) { return label == 2 ? bad : label; });
    Watcher watcher;
    Job job = make_job(small_options(), train, separable_set(8, 2));
    EXPECT_THAT([&] { job.trainer.run(watcher); },
                ThrowsMessage<SampleError>(AllOf(HasSubstr("check_label: sample "),
                                                 HasSubstr("label " + std::to_string(bad) + " is outside [0, 4)"))));
    // The device is as usable as before.
    const gpu::Stream stream = job.device->create_stream("after");
    bool ran = false;
    job.device->enqueue(stream, {"after", [&](gpu::NativeStream) { ran = true; }, {}, {}});
    job.device->synchronize(stream);
    EXPECT_TRUE(ran);
  }
}

TEST(TrainerTest, BadSampleInMidRunLeavesTheLastCheckpoint) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.out = temp.path("run");
  const auto seen = std::make_shared<std::atomic<int>>(0);
  const Pipeline train = separable_set(100, 1).map("label", [seen](std::int64_t label) {
    if (seen->fetch_add(1) == 230) throw DataError(ErrorKind::kCorrupt, "a planted fault");
    return label;
  });
  Watcher watcher;
  std::vector<std::filesystem::path> files;
  watcher.checkpoint = [&](const std::filesystem::path& file) { files.push_back(file); };
  Job job = make_job(options, train, separable_set(42, 2));
  EXPECT_THAT([&] { job.trainer.run(watcher); }, ThrowsMessage<SampleError>(HasSubstr("a planted fault")));
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(find_checkpoint(options.out), files.back());
  EXPECT_NO_THROW(read_checkpoint_state(files.back()));
  options.resume = options.out;
  EXPECT_EQ(run_job(options).rows.size(), 3U);
}

TEST(TrainerTest, LossThatIsNotFiniteEndsTheRun) {
  TrainerOptions options = small_options();
  options.learning_rate = 1e30;
  Watcher watcher;
  Job job = make_job(options);
  EXPECT_THAT([&] { job.trainer.run(watcher); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("the training loss is not finite in epoch 1"), HasSubstr("lower one may help"))));
}

TEST(TrainerTest, WritesNothingWhenTheBudgetHoldsOneLoaderOnly) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.out = temp.path("run");
  Watcher watcher;
  Job job = make_job(options, {.budget_bytes = std::uint64_t{100} << 20, .train_cache = {}, .val_cache = {}});
  EXPECT_THAT([&] { job.trainer.run(watcher); },
              ThrowsMessage<InvalidArgument>(HasSubstr("other loaders have 67108864 bytes")));
  EXPECT_FALSE(std::filesystem::exists(options.out));
}

TEST(TrainerTest, RefusesToResumeAnotherJob) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.epochs = 1;
  options.out = temp.path("run");
  run_job(options);
  TrainerOptions other = options;
  other.resume = options.out;
  other.batch = 8;
  other.seed = 12;
  other.epochs = 2;
  other.learning_rate = 0.01;
  other.recipe.label_smoothing = 0;
  EXPECT_THAT([&] { make_job(other); },
              ThrowsMessage<InvalidArgument>(AllOf(
                  HasSubstr("is of another job"), HasSubstr("batch: 16 in the checkpoint, 8 now"),
                  HasSubstr("seed: 11 in the checkpoint, 12 now"), HasSubstr("epochs: 1 in the checkpoint, 2 now"),
                  HasSubstr("peak learning rate: 0.05 in the checkpoint, 0.01 now"),
                  HasSubstr("recipe label_smoothing: 0.05 in the checkpoint, 0.0 now"), Not(HasSubstr("width")))));
  options.resume = options.out;
  EXPECT_THAT([&] { make_job(options, separable_set(96, 1), separable_set(42, 2)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("training samples: 100 in the checkpoint, 96 now")));
}

TEST(TrainerTest, DamagedCheckpointOffersTheOneBefore) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.out = temp.path("run");
  const TrainResult whole = run_job(options);
  std::filesystem::resize_file(whole.last_checkpoint, std::filesystem::file_size(whole.last_checkpoint) - 5);
  options.resume = options.out;
  EXPECT_THAT([&] { make_job(options); },
              ThrowsMessage<CheckpointCorrupt>(AllOf(HasSubstr("checkpoint_corrupt"), HasSubstr("epoch-000003"),
                                                     HasSubstr("the one before is"), HasSubstr("epoch-000002"))));
  options.resume = checkpoint_before(whole.last_checkpoint);
  EXPECT_EQ(run_job(options).weights_hash, whole.weights_hash);
}

TEST(TrainerTest, WritesARunFolder) {
  const test::TempFolder temp;
  TrainerOptions options = small_options();
  options.out = temp.path("run");
  const TrainResult result = run_job(options);
  EXPECT_EQ(read_text(temp.path("run/classes.txt")), "ant\nbee\ncat\ndog\n");
  const auto config = nlohmann::json::parse(read_text(temp.path("run/config.json")));
  EXPECT_EQ(config.at("model"), "mlp");
  EXPECT_EQ(config.at("recipe").at("name"), "small");
  const auto plan = nlohmann::json::parse(read_text(temp.path("run/plan.json")));
  EXPECT_TRUE(plan.at("fits").get<bool>());
  std::ifstream lines(temp.path("run/metrics.jsonl"));
  std::string line;
  std::uint64_t epoch = 0;
  while (std::getline(lines, line)) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.at("epoch"), ++epoch);
    for (const char* const name :
         {"train_loss", "train_top1", "val_loss", "val_top1", "val_top5", "images_per_s", "data_wait_share"}) {
      EXPECT_TRUE(row.at(name).is_number()) << name;
    }
    EXPECT_GT(row.at("images_per_s"), 0);
    EXPECT_GE(row.at("data_wait_share"), 0);
    EXPECT_LE(row.at("data_wait_share"), 1);
    EXPECT_GT(row.at("accounts").at("device/step").at("peak_bytes"), 0);
    EXPECT_TRUE(row.at("accounts").at("val").contains("cap_bytes"));
  }
  EXPECT_EQ(epoch, 3U);
  const CheckpointState last = read_checkpoint_state(result.last_checkpoint);
  EXPECT_EQ(last.phase, CheckpointPhase::kValidationPending);
  EXPECT_EQ(last.rows.size(), 2U) << "written before the third validation";
  EXPECT_TRUE(std::filesystem::exists(temp.path("run/checkpoints/best")));
  EXPECT_THAT([&] { make_job(options); }, ThrowsMessage<InvalidArgument>(HasSubstr("holds a run already")));
}

TEST(TrainerTest, RefusesBadOptionsBeforeAnythingRuns) {
  const auto refused = [](auto change) {
    TrainerOptions options = small_options();
    change(options);
    return [options] { make_job(options); };
  };
  EXPECT_THAT(refused([](TrainerOptions& o) { o.batch = 0; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("training batch must be at least 1")));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.epochs = 0; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("epochs must be at least 1")));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.model = "vgg"; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("unknown model \"vgg\"")));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.depth = 0; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("depth must be at least 1")));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.learning_rate = -1; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("learning rate")));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.batch = 128; }),
              ThrowsMessage<InvalidArgument>(
                  HasSubstr("100 samples, fewer than one batch of 128: the training batch can be at most 100")));
  EXPECT_THAT([] { make_job(small_options(), separable_set(100, 1), separable_set(0, 2)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the validation set is empty")));
  EXPECT_THAT(
      [] {
        make_job(small_options(), separable_set(100, 1), separable_set(42, 2).map("label", [](std::int64_t label) {
          return static_cast<std::int32_t>(label);
        }));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("label")));
}

}  // namespace
}  // namespace penstock::trainer
