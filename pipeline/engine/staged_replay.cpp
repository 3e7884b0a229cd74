// The batches stay on loan to this object, so there must be as many blocks as it keeps.
#include <penstock/pipeline/engine/staged_replay.h>

#include <string>

#include <penstock/pipeline/error.h>

namespace penstock::engine {

StagedReplay::StagedReplay(std::size_t batch_count, std::size_t most_at_once,
                           std::optional<std::uint64_t> batches_in_all)
    : wanted_(batch_count) {
  if (wanted_ == 0) return;
  const std::string asked = "loader: replay_staged_batches keeps " + std::to_string(wanted_) + " batches, ";
  if (wanted_ > most_at_once) {
    throw InvalidArgument(asked + "this loader has memory for " + std::to_string(most_at_once) +
                          ", those ahead and the one in the caller's hands; ask for prefetch(" +
                          std::to_string(wanted_ - 1) + "), or keep fewer");
  }
  if (batches_in_all && wanted_ > *batches_in_all) {
    throw InvalidArgument(asked + "all of its epochs together have " + std::to_string(*batches_in_all));
  }
  batches_.reserve(wanted_);
}

Batch StagedReplay::next() {
  const Batch batch = batches_[at_];
  at_ = at_ + 1 == batches_.size() ? 0 : at_ + 1;
  return batch;
}

bool StagedReplay::keep(const Batch& batch) {
  if (wanted_ == 0 || full()) return false;
  batches_.push_back(batch);
  return full();
}

}  // namespace penstock::engine
