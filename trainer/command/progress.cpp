// A bar is wiped by as many blanks as it was wide, so no terminal codes are needed.
#include <penstock/trainer/command/progress.h>

#include <cmath>
#include <cstdio>

namespace penstock::trainer::command {
namespace {

constexpr std::size_t kBarCells = 20;

std::string time_left(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  char text[48];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld left", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld left", whole / 60, whole % 60);
  }
  return text;
}

}  // namespace

std::string progress_text(const StepProgress& progress, bool with_bar) {
  const double share =
      progress.steps == 0 ? 0 : static_cast<double>(progress.step) / static_cast<double>(progress.steps);
  char text[200];
  std::snprintf(text, sizeof text, "epoch %llu/%llu %-5s %3.0f%%", static_cast<unsigned long long>(progress.epoch),
                static_cast<unsigned long long>(progress.epochs), progress.phase == Phase::kTrain ? "train" : "val",
                std::floor(100 * share));
  std::string line = text;
  if (with_bar) {
    const auto full = static_cast<std::size_t>(share * kBarCells);
    line += " [" + std::string(full, '#') + std::string(kBarCells - full, ' ') + "]";
  }
  if (progress.images_per_s > 0) {
    std::snprintf(text, sizeof text, "  %.0f images/s", progress.images_per_s);
    line += text;
  }
  std::snprintf(text, sizeof text, "  data wait %.1f%%", 100 * progress.data_wait_share);
  line += text;
  if (progress.run_seconds_left > 0) line += "  " + time_left(progress.run_seconds_left);
  return line;
}

void Progress::show(const StepProgress& progress, std::chrono::steady_clock::time_point now) {
  if (style_ == Style::kQuiet) return;
  const bool terminal = style_ == Style::kTerminal;
  if (next_ == std::chrono::steady_clock::time_point{} && !terminal) next_ = now + std::chrono::seconds(10);
  if (now < next_) return;
  next_ = now + (terminal ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000));
  const std::string line = progress_text(progress, terminal);
  if (!terminal) {
    to_ << line << std::endl;
    return;
  }
  const std::size_t left_over = bar_width_ > line.size() ? bar_width_ - line.size() : 0;
  to_ << '\r' << line << std::string(left_over, ' ') << std::flush;
  bar_width_ = line.size();
}

void Progress::print(const std::string& text) {
  if (bar_width_ > 0) to_ << '\r' << std::string(bar_width_, ' ') << '\r';
  bar_width_ = 0;
  to_ << text << std::flush;
}

}  // namespace penstock::trainer::command
