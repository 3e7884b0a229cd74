// Which folder a run writes to, decided before anything is written.
#pragma once

#include <filesystem>

namespace penstock::trainer::command {

/// The run folder for `--out` and `--resume` as typed (empty: not given). Not given: the folder of the resumed run,
/// else the first of runs/1, runs/2, ... that is not there. Makes nothing. Throws InvalidArgument for a place that
/// cannot be written to, and for a folder that is not empty, unless it is the one that is resumed.
std::filesystem::path choose_run_folder(const std::filesystem::path& out, const std::filesystem::path& resume);

}  // namespace penstock::trainer::command
