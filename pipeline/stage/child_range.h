// What one element becomes in flat_map and interleave: its children, one at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/sample_range.h>

namespace penstock::stage {

/// What all ranges of one stage share.
struct ChildStage {
  std::string name;
  std::function<SampleRange(const Sample&)> function;
  Schema schema;  ///< of the children
};

/// The range of one parent, which it keeps where it is, so that a coroutine may refer to it. Child c has the lineage
/// mix_lineage(parent's, c). A function that throws, and a parent that is an error itself, have one child: the error.
class ChildRange {
 public:
  /// `stage`, `context` and `counter` outlive it. Calls the user's function.
  ChildRange(const ChildStage& stage, const engine::StreamContext& context, engine::StageCounter& counter,
             engine::Element parent);
  ChildRange(const ChildRange&) = delete;
  ChildRange& operator=(const ChildRange&) = delete;

  /// kPending: there is no memory for the child now.
  engine::Pull next(engine::Element& out, engine::Producing& producing);
  /// Passes over `count` children.
  void skip(std::uint64_t count);
  /// Children that were returned or skipped.
  std::uint64_t returned() const noexcept { return returned_; }
  engine::Element& parent() noexcept { return parent_; }

 private:
  bool make();
  engine::Element taken_error();

  const ChildStage& stage_;
  const engine::StreamContext& context_;
  engine::StageCounter& counter_;
  engine::Element parent_;  // before the range, which may refer to it
  SampleRange range_;
  bool ended_ = false;
  bool function_failed_ = false;
  // The next child, from when it is made until it is returned: one of the two.
  std::optional<Sample> sample_;
  std::exception_ptr error_;
  std::uint64_t returned_ = 0;
};

}  // namespace penstock::stage
