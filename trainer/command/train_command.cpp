// What is written after the start of the run ends as exit code 1; what is refused before, as 2 or 3.
#include <penstock/trainer/command/train_command.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>

#include <penstock/trainer/command/exit_code.h>
#include <penstock/trainer/command/job.h>
#include <penstock/trainer/command/progress.h>
#include <penstock/trainer/command/table.h>

namespace penstock::trainer::command {
namespace {

/// Shows a run to people, and with `json` to scripts.
class Display : public TrainObserver {
 public:
  Display(std::ostream& people, Progress::Style style, bool json) : progress_(people, style), json_(json) {}

  void on_plan(const gpu::MemoryPlan& plan) override { progress_.print("\n" + plan.table() + "\n"); }
  void on_step(const StepProgress& progress) override { progress_.show(progress, std::chrono::steady_clock::now()); }
  void on_epoch(const EpochRow& row) override {
    if (json_) std::cout << row_to_json(row) << std::endl;
    if (!has_heading_) progress_.print(epoch_heading());
    has_heading_ = true;
    progress_.print(epoch_text(row));
  }
  void on_checkpoint(const std::filesystem::path& file) override { last_checkpoint_ = file; }
  void on_notice(const std::string& text) override { progress_.print(text + "\n"); }

  void finish() { progress_.finish(); }
  /// `; the last checkpoint is PATH`, or that there is none.
  std::string checkpoint_text() const {
    return last_checkpoint_.empty() ? "; no checkpoint was written"
                                    : "; the last checkpoint is " + last_checkpoint_.string();
  }

 private:
  Progress progress_;
  bool json_;
  bool has_heading_ = false;
  std::filesystem::path last_checkpoint_;
};

std::string done_text(const Job& job, const TrainResult& result) {
  char text[200];
  std::snprintf(text, sizeof text, "done: %llu steps, %.1f s of training, weights %016llx\n",
                static_cast<unsigned long long>(result.steps), result.train_seconds,
                static_cast<unsigned long long>(result.weights_hash));
  return text + ("run folder: " + job.out.string() + "\n");
}

int stopped(const TrainResult& result, const Display& display, int signal) {
  std::cerr << "penstock: stopped by " << (signal == SIGINT ? "SIGINT" : "SIGTERM") << " after " << result.steps
            << " steps" << display.checkpoint_text() << std::endl;
  return kSignalled + signal;
}

}  // namespace

int run_train(const JobOptions& options, SignalStop& signals) {
  Job job = open_job(options, Purpose::kTrain);
  std::ostream& people = options.common.json ? std::cerr : std::cout;
  const bool terminal = isatty(options.common.json ? STDERR_FILENO : STDOUT_FILENO) == 1;
  Display display(people, terminal ? Progress::Style::kTerminal : Progress::Style::kPlain, options.common.json);
  people << job.settings;
  for (const std::string& notice : job.notices) display.on_notice(notice);

  signals.begin();
  try {
    const TrainResult result = job.trainer.run(display, signals.token());
    display.finish();
    if (result.stopped) return stopped(result, display, signals.signal());
    people << done_text(job, result) << std::flush;
    return kDone;
  } catch (const gpu::PlanRefused& refused) {
    people << "\n" << refused.plan().table() << std::flush;
    if (options.common.json) std::cout << plan_to_json(refused.plan()) << std::endl;
    std::cerr << "penstock: " << refused.what() << std::endl;
    return kPlanRefused;
  } catch (const InvalidArgument&) {
    throw;
  } catch (const std::exception& error) {
    display.finish();
    std::cerr << "penstock: " << error.what() << display.checkpoint_text() << std::endl;
    return kFailed;
  }
}

}  // namespace penstock::trainer::command
