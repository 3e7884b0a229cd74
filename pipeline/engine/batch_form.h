// How the batches of a stream come about, as its plan says: row by row into memory whose layout is known, or whole.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/plan.h>

namespace penstock::engine {

/// Read from a plan once.
struct BatchForm {
  /// The last stage that counts is a plain `batch`: the elements are its rows, and are written where they belong. Else
  /// the elements are batches.
  bool rows = false;
  /// Of every batch; of whole batches: the fields with the dimensions that are known, without places.
  std::shared_ptr<const BatchLayout> layout;
  LastBatch last = LastBatch::kKeep;  ///< of rows
  /// For each field of rows: the stage that wrote it last.
  std::vector<std::string> writers;
  /// Elements of an epoch that reach a batch, where that is known beforehand: never of whole batches, since an error
  /// cuts one into several.
  std::optional<std::uint64_t> elements;
  /// Batches that an epoch has at least, whatever is skipped: those of the longest rank. Missing ones are made of
  /// zeros.
  std::uint64_t least_batches = 0;
  /// Elements an epoch before the rule for the last batch.
  std::optional<std::uint64_t> all_elements;
  /// The stage that makes whole batches.
  std::string stage;
};

/// `plan` has a batch stage.
BatchForm batch_form(const Plan& plan);
/// Whether some stage of the plan holds elements back, so that LoaderOptions::kept_bytes is needed.
bool keeps_elements(const Plan& plan);

}  // namespace penstock::engine
