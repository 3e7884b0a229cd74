// Only looks; the trainer makes the folder when it writes its first file.
#include <penstock/trainer/command/run_folder.h>

#include <unistd.h>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/run_folder.h>

namespace penstock::trainer::command {
namespace {

namespace fs = std::filesystem;

/// The run that a checkpoint file or a run folder belongs to; empty when there is none.
fs::path run_of(const fs::path& resume) {
  if (resume.empty()) return {};
  if (fs::is_directory(resume)) return resume.filename() == "checkpoints" ? resume.parent_path() : resume;
  const fs::path folder = resume.parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : fs::path{};
}

void require_writable(const fs::path& out) {
  fs::path existing = fs::absolute(out);
  while (!fs::exists(existing) && existing != existing.parent_path()) existing = existing.parent_path();
  if (!fs::is_directory(existing)) {
    throw InvalidArgument("--out: '" + out.string() + "' cannot be made: '" + existing.string() + "' is no folder");
  }
  if (access(existing.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument("--out: '" + out.string() + "' cannot be made: no right to write in '" + existing.string() +
                          "'");
  }
}

/// What can be done about a folder that is not empty, other than naming another one.
std::string way_on(const fs::path& folder) {
  try {
    find_checkpoint(folder);
    return ", or go on with that run: --resume " + folder.string();
  } catch (const InvalidArgument&) {
    return fs::exists(folder / "config.json") ? ", or remove it: it is of a run that wrote no checkpoint" : "";
  }
}

}  // namespace

fs::path choose_run_folder(const fs::path& out, const fs::path& resume) {
  const fs::path resumed = run_of(resume);
  fs::path chosen = out.empty() ? resumed : out;
  for (int number = 1; chosen.empty(); ++number) {
    const fs::path free = fs::path("runs") / std::to_string(number);
    if (!fs::exists(free)) chosen = free;
  }
  require_writable(chosen);
  std::error_code error;
  const bool same = !resumed.empty() && fs::equivalent(chosen, resumed, error);
  if (fs::exists(chosen) && !fs::is_empty(chosen) && !same) {
    throw InvalidArgument("--out: '" + chosen.string() + "' is not empty; name another folder" + way_on(chosen));
  }
  return chosen;
}

}  // namespace penstock::trainer::command
