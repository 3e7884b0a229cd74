// Batches as elements, whatever makes one of its rows: `size` elements of the input each, cut at errors as the engine
// cuts its batches, so that borders never move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/plan.h>
#include <penstock/pipeline/stage/repeatable_input.h>
#include <penstock/pipeline/stage/stack.h>

namespace penstock::stage {

/// Makes one batch.
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;
  /// The batch of `rows`, at least one; nothing: there is no room now, and it is asked again with the same rows. What
  /// it throws takes the batch's place.
  virtual std::optional<engine::Element> make(Rows rows) = 0;
  /// The batch that was asked for last is not wanted any more.
  virtual void forget() {}
};

/// A batch of `size` elements is complete, or the last one at the end of a pass is (LastBatch::kDrop: left out); then
/// it is given on: the rows before an error, the error, the rows after it up to the border.
class Batcher final : public engine::Operator {
 public:
  Batcher(engine::StreamContext& context, std::string stage, std::uint64_t kind, std::size_t size, LastBatch last,
          std::unique_ptr<BatchMaker> maker, std::unique_ptr<engine::Operator> input,
          RepeatableInput::Admit admit = {});
  ~Batcher() override;
  void start(const engine::Pass& pass) override;
  engine::Pull next(engine::Element& out) override;
  void save(Cursor& cursor) const override;
  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override;

 private:
  void drop_group();
  void release(std::size_t first, std::size_t last);
  std::size_t piece_end() const;
  bool give_piece(engine::Element& out);
  void skip_piece();
  void end_piece(std::size_t end);

  engine::StreamContext& context_;
  const std::string stage_;
  const std::uint64_t kind_;
  const std::size_t size_;
  const LastBatch last_;
  std::unique_ptr<BatchMaker> maker_;
  RepeatableInput input_;
  std::vector<engine::Element> group_;
  std::uint64_t group_start_ = 0;  // number of its first element
  std::size_t at_ = 0;             // of the group: the next to be given on
  std::uint64_t given_ = 0;        // pieces of the group
  std::uint64_t skip_ = 0;         // pieces that were given on before `restore`
  bool complete_ = false;
  bool ended_ = false;
};

/// Stacks the rows as they are, or as `shapes` says.
class StackMaker final : public BatchMaker {
 public:
  /// `capacity`: rows of every batch; 0: as many as there are.
  StackMaker(engine::StreamContext& context, const std::string& stage, std::uint64_t kind, std::size_t capacity,
             std::vector<RowShape> shapes = {})
      : stacker_(context, stage, kind, std::move(shapes)), capacity_(capacity) {}
  std::optional<engine::Element> make(Rows rows) override {
    return stacker_.stack(rows, capacity_ == 0 ? rows.size() : capacity_);
  }

 private:
  Stacker stacker_;
  const std::size_t capacity_;
};

}  // namespace penstock::stage
