// Where one row of one batch came from: its sample, what its random maps drew, what became of an error; and the row
// itself, made again.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/error_policy.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/pipeline/sample.h>

namespace penstock {

/// A row of a stream of batches, and what the order puts there.
struct Provenance {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;           ///< in the epoch
  std::uint64_t row = 0;             ///< of the batch
  std::uint64_t slot = 0;            ///< of the epoch's order
  std::uint64_t lineage = 0;         ///< what `Draw` is keyed by; 0 for a plan that is not flat
  std::vector<Origin> origins;       ///< one, or several where a sample was made from several
  std::vector<std::string> sources;  ///< path, or file and record, of each
};

/// The numbers that one random map took for one row.
struct StageDraws {
  std::string stage;                 ///< `random_flip`
  std::uint32_t number = 0;          ///< random maps before it
  std::vector<std::uint32_t> words;  ///< of 32 bits, in the order taken
};

/// A row made again.
struct RebuiltRow {
  Provenance provenance;              ///< of a replaced sample: still what the order puts there
  std::optional<Sample> sample;       ///< bit-equal to the row; nothing where no row was delivered
  std::vector<StageDraws> draws;      ///< of the sample delivered; empty for a plan that is not flat
  std::exception_ptr error;           ///< SampleError of the sample that failed; null: none did
  std::optional<Origin> replacement;  ///< the sample that took its place
  /// For people: a line for the source, one for each random map, one for an error and what became of it, and one for
  /// each field: type, shape and XXH3 of its bytes.
  std::string text;
};

/// What stands in row `row` of batch `batch` of an epoch, by arithmetic: reads nothing, and costs the same anywhere.
/// For flat plans (see Plan). Throws InvalidArgument for another plan, and for a row that no batch has.
Provenance provenance(const Pipeline& pipeline, std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
                      std::uint64_t row);

/// Makes the row again as a loader with this seed delivers it. Of a flat plan only this sample is read, on the calling
/// thread, past any cache; of another plan the epoch is run up to that batch on `runtime`. Blocks. Throws
/// InvalidArgument as `provenance` does.
RebuiltRow rebuild(const Runtime& runtime, const Pipeline& pipeline, std::uint64_t seed, std::uint64_t epoch,
                   std::uint64_t batch, std::uint64_t row);

}  // namespace penstock
