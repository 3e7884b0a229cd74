// How far a run is: a bar that is drawn over itself on a terminal, a plain line now and then elsewhere.
#pragma once

#include <chrono>
#include <ostream>
#include <string>

#include <penstock/trainer/trainer.h>

namespace penstock::trainer::command {

/// `epoch 2/3 train  41% [########            ]  1993 images/s  data wait 1.2%  2:07 left`; without the bar elsewhere.
std::string progress_text(const StepProgress& progress, bool with_bar);

/// Writes progress and other text to one stream, so that they do not run into each other. Not safe for concurrent use.
class Progress {
 public:
  enum class Style : std::uint8_t {
    kTerminal,  ///< a bar, at most 10 times a second
    kPlain,     ///< a line, at most one in 10 seconds
    kQuiet,     ///< nothing
  };
  Progress(std::ostream& to, Style style) : to_(to), style_(style) {}

  /// `now` decides whether it is time to write again.
  void show(const StepProgress& progress, std::chrono::steady_clock::time_point now);
  /// Wipes the bar, if there is one, and writes `text`, which ends with a new line.
  void print(const std::string& text);
  /// Wipes the bar.
  void finish() { print({}); }

 private:
  std::ostream& to_;
  Style style_;
  std::chrono::steady_clock::time_point next_{};
  std::size_t bar_width_ = 0;
};

}  // namespace penstock::trainer::command
