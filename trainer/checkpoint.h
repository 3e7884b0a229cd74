// A checkpoint: one safetensors file with everything that a training needs to go on bit for bit.
//
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON: "__metadata__": {"format": "pt", "penstock": state as JSON text, "checksum": 16 hex digits}, then
//             for each tensor "name": {"dtype", "shape", "data_offsets"}; spaces up to a multiple of 8
//   the rest  the tensors' bytes, without gaps, in the order of the header
//
// Weights and statistics have their PyTorch names and layout (convolutions [K, C, R, S]), momenta the same behind
// `momentum.`. The checksum is XXH3 of the whole file with the 16 digits as zeros, so a file that was cut or changed
// anywhere is told from a whole one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/batch.h>
#include <penstock/trainer/model_graph.h>
#include <penstock/trainer/model_layout.h>
#include <penstock/trainer/trainer.h>

namespace penstock::trainer {

/// The file is cut or changed. `what()` begins with `checkpoint_corrupt: ` and the path.
class CheckpointCorrupt : public Error {
 public:
  using Error::Error;
};

/// When a checkpoint was taken.
enum class CheckpointPhase : std::uint8_t {
  kTraining,           ///< taken within an epoch
  kValidationPending,  ///< taken at an epoch's end, before its validation
};

/// What may not change between a run and its resumption, as names and texts: model, batch, seed, data, schedule, ...
using JobIdentity = std::vector<std::pair<std::string, std::string>>;

/// All of a checkpoint but the numbers of the model.
struct CheckpointState {
  CheckpointPhase phase = CheckpointPhase::kTraining;
  std::uint64_t epoch = 0;        ///< counted from 0: the one that is under way or whose validation is pending
  std::uint64_t epoch_steps = 0;  ///< steps done in it
  Position position;              ///< after the last batch used
  double epoch_seconds = 0;       ///< training time of the epoch so far, for its row
  double epoch_wait_seconds = 0;
  JobIdentity identity;
  std::vector<std::string> classes;
  std::string recipe;          ///< JSON
  std::vector<EpochRow> rows;  ///< of the epochs that were validated
};

/// All of a checkpoint.
struct Checkpoint {
  CheckpointState state;
  std::vector<std::byte> model;  ///< `ModelLayout::state_bytes` bytes
};

/// Writes aside, syncs, renames, syncs the folder: `file` is the old one or the new one at any moment. `model` is
/// `layout.state_bytes` bytes. Throws Error with the path and the system's reason; the old file is then intact, and
/// nothing is left over.
void write_checkpoint(const std::filesystem::path& file, const ModelGraph& graph, const ModelLayout& layout,
                      const CheckpointState& state, const std::byte* model);
/// The state alone, after the whole file has been checked. Throws CheckpointCorrupt; Error when it cannot be read.
CheckpointState read_checkpoint_state(const std::filesystem::path& file);
/// Throws as above; CheckpointCorrupt too when a tensor is not that of `graph`.
Checkpoint read_checkpoint(const std::filesystem::path& file, const ModelGraph& graph, const ModelLayout& layout);

/// Every difference, on one line: `batch: 128 in the checkpoint, 64 now; ...`; empty when there is none.
std::string identity_differences(const JobIdentity& checkpoint, const JobIdentity& now);

}  // namespace penstock::trainer
