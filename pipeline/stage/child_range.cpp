// A child that waits for memory is kept, so that the user's range is asked once for each.
#include <penstock/pipeline/stage/child_range.h>

#include <utility>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/stage/output_fields.h>
#include <penstock/pipeline/stage/stack.h>
#include <penstock/pipeline/stage/user_call.h>

namespace penstock::stage {

using engine::Element;
using engine::Pull;

ChildRange::ChildRange(const ChildStage& stage, const engine::StreamContext& context, engine::StageCounter& counter,
                       Element parent)
    : stage_(stage), context_(context), counter_(counter), parent_(std::move(parent)) {
  if (!parent_.is_value()) return;
  const UserCall call(counter_);
  try {
    range_ = stage_.function(parent_.sample);
  } catch (...) {
    error_ = std::current_exception();
    function_failed_ = ended_ = true;
  }
}

bool ChildRange::make() {
  if (sample_ || error_) return true;
  if (ended_) return false;
  const UserCall call(counter_);
  try {
    sample_ = range_.next();
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_ = !sample_;
  if (!sample_) return error_ != nullptr;
  try {
    sample_ = conforming(*sample_, stage_.schema, first_origin(parent_));
  } catch (...) {
    sample_.reset();
    error_ = std::current_exception();
  }
  return true;
}

Element ChildRange::taken_error() {
  Element child = without_sample(parent_);
  // The error of the function itself stands in the parent's place, that of the range in a child's.
  if (!function_failed_) child.lineage = mix_lineage(parent_.lineage, returned_);
  return failed_or_skipped(context_, std::move(child), stage_.name, std::exchange(error_, nullptr));
}

Pull ChildRange::next(Element& out, engine::Producing& producing) {
  if (!parent_.is_value()) {
    if (returned_ > 0) return Pull::kEnd;
    out = without_sample(parent_);
    ++returned_;
    return Pull::kElement;
  }
  if (!make()) return Pull::kEnd;
  if (sample_) {
    const std::uint64_t bytes = sample_->size_bytes();
    try {
      engine::Charge charge = producing.charge(bytes);
      if (!charge) return Pull::kPending;
      out = without_sample(parent_);
      out.charge = std::move(charge);
      out.lineage = mix_lineage(parent_.lineage, returned_);
      out.row_origins = row_origins(parent_, *sample_);
      out.sample = std::move(*sample_);
      sample_.reset();
      counter_.add(1, {}, bytes);
    } catch (...) {
      sample_.reset();
      error_ = std::current_exception();
    }
  }
  if (error_) out = taken_error();
  ++returned_;
  return Pull::kElement;
}

void ChildRange::skip(std::uint64_t count) {
  for (; returned_ < count && (!parent_.is_value() || make()); ++returned_) {
    sample_.reset();
    error_ = nullptr;
  }
}

}  // namespace penstock::stage
