// The folder of a run: config.json, classes.txt, plan.json, metrics.jsonl and checkpoints/.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <penstock/trainer/trainer.h>

namespace penstock::trainer {

/// Files of a run; every one is whole at any moment. Not safe for concurrent use.
class RunFolder {
 public:
  /// Makes nothing yet. Throws InvalidArgument when `folder` holds a run already, unless `resumed_file` is a checkpoint
  /// in it.
  RunFolder(std::filesystem::path folder, const std::filesystem::path& resumed_file);

  /// Makes the folders and writes what is known before the first step. Throws Error.
  void begin(const std::string& config_json, const std::vector<std::string>& classes, const gpu::MemoryPlan& plan);
  /// metrics.jsonl becomes these rows. Throws Error.
  void write_rows(const std::vector<EpochRow>& rows);

  /// Where a checkpoint goes: after `epoch_steps` steps of `epoch` (counted from 1), or at its end.
  std::filesystem::path checkpoint_file(std::uint64_t epoch, std::optional<std::uint64_t> epoch_steps) const;
  /// `last` points to `file`; only the two newest checkpoints and the best one stay. Throws Error.
  void set_last(const std::filesystem::path& file);
  /// `best` points to `file`. Throws Error.
  void set_best(const std::filesystem::path& file);

 private:
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path folder_;
};

/// The checkpoint that `place` names: a file, or a folder of a run (its newest). Throws InvalidArgument when there is
/// none.
std::filesystem::path find_checkpoint(const std::filesystem::path& place);
/// The newest checkpoint of the same folder that is older than `file`; empty when there is none.
std::filesystem::path checkpoint_before(const std::filesystem::path& file);

}  // namespace penstock::trainer
