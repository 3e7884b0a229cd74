// The same samples several times over in one epoch.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <utility>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/operators.h>

namespace penstock {
namespace stage {
namespace {

using engine::Element;
using engine::Pass;
using engine::Pull;

/// Starts the input again when it has ended. Saved is the number of the pass.
class RepeatOperator final : public Operator {
 public:
  RepeatOperator(std::uint64_t count, StreamContext& context, std::unique_ptr<Operator> input)
      : count_(count), context_(context), input_(std::move(input)) {}

  void start(const Pass& pass) override {
    outer_ = pass;
    number_ = 0;
    begin_pass();
  }
  Pull next(Element& out) override {
    while (true) {
      const Pull pull = input_->next(out);
      if (pull == Pull::kElement) gave_any_ = true;
      if (pull != Pull::kEnd || number_ + 1 == count_) return pull;
      const bool gave_any = gave_any_;
      ++number_;
      begin_pass();
      if (gave_any) continue;
      // Passes without any sample may be many: between two of them others have their turn.
      context_.wake();
      return Pull::kPending;
    }
  }
  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(number_);
    input_->save(cursor);
  }
  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    outer_ = pass;
    number_ = cursor.number();
    gave_any_ = false;
    input_->restore(inner_pass(), cursor);
  }

 private:
  // As order::Order mixes it.
  Pass inner_pass() const { return {outer_.epoch, mix_lineage(outer_.passes, number_), true}; }
  void begin_pass() {
    gave_any_ = false;
    input_->start(inner_pass());
  }

  const std::uint64_t count_;
  StreamContext& context_;
  std::unique_ptr<Operator> input_;
  Pass outer_;
  std::uint64_t number_ = 0;
  bool gave_any_ = false;
};

}  // namespace

std::unique_ptr<Operator> make_operator(const RepeatStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input) {
  return std::make_unique<RepeatOperator>(stage.count, context, std::move(input));
}

}  // namespace stage

Pipeline Pipeline::repeat(std::uint64_t count) const {
  if (count == 0) throw InvalidArgument("repeat: 0 times; at least 1 is needed (take(0) makes an empty pipeline)");
  Pipeline repeated = with(RepeatStage{count}, plan_->schemas.back());
  static_cast<void>(element_count(*repeated.plan_));
  return repeated;
}

}  // namespace penstock
