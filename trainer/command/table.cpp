// Memory does not fit beside the figures on one line; it goes below them.
#include <penstock/trainer/command/table.h>

#include <cstdio>

namespace penstock::trainer::command {
namespace {

/// Columns at which the memory part is broken.
constexpr std::size_t kLineWidth = 110;

std::string peak_text(const gpu::AccountFigures& figures) {
  std::string text = figures.path + " " + gpu::format_size(figures.peak_bytes);
  if (figures.cap_bytes != gpu::kNoCap) text += " of " + gpu::format_size(figures.cap_bytes);
  return text;
}

}  // namespace

std::string epoch_heading() { return "epoch  train loss   top-1    val loss   top-1   top-5   images/s  data wait\n"; }

std::string epoch_text(const EpochRow& row) {
  char line[160];
  std::snprintf(line, sizeof line, "%5llu  %10.4f %6.2f%%  %10.4f %6.2f%% %6.2f%%  %9.0f  %8.1f%%\n",
                static_cast<unsigned long long>(row.epoch), row.train_loss, 100 * row.train_top1, row.val_loss,
                100 * row.val_top1, 100 * row.val_top5, row.images_per_s, 100 * row.data_wait_share);
  std::string text = line;
  std::string memory = "       peak";
  for (const gpu::AccountFigures& figures : row.accounts) {
    const std::string part = "  " + peak_text(figures) + (&figures == &row.accounts.back() ? "" : ",");
    if (memory.size() + part.size() > kLineWidth) {
      text += memory + "\n";
      memory = "           ";
    }
    memory += part;
  }
  return text + memory + "\n";
}

}  // namespace penstock::trainer::command
