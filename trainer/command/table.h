// The table of epochs: one row each.
#pragma once

#include <string>

#include <penstock/trainer/trainer.h>

namespace penstock::trainer::command {

/// The heading; ends with a new line.
std::string epoch_heading();
/// Losses, accuracies in per cent, images/s, data-wait share; below it the peak of each phase and account against its
/// cap. Ends with a new line.
std::string epoch_text(const EpochRow& row);

}  // namespace penstock::trainer::command
