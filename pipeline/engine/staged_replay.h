// Head-room: the first batches of a loader, kept and handed out again without end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/loader.h>

namespace penstock::engine {

/// For LoaderOptions::replay_staged_batches. Used by the thread that takes.
class StagedReplay {
 public:
  /// `batch_count`: 0 for none. Throws InvalidArgument, with the arithmetic, when a loader that has memory for
  /// `most_at_once` batches never has as many, or `batches_in_all` are fewer.
  StagedReplay(std::size_t batch_count, std::size_t most_at_once, std::optional<std::uint64_t> batches_in_all);

  /// All batches are there: `next` gives them in turn.
  bool full() const noexcept { return wanted_ != 0 && batches_.size() == wanted_; }
  Batch next();
  /// Keeps what the loader delivers, until it is full. True when this batch made it so.
  bool keep(const Batch& batch);

 private:
  std::size_t wanted_;
  std::size_t at_ = 0;
  std::vector<Batch> batches_;
};

}  // namespace penstock::engine
