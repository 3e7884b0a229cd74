// The first samples.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <utility>

#include <penstock/pipeline/stage/operators.h>

namespace penstock {
namespace stage {
namespace {

using engine::Element;
using engine::Pass;
using engine::Pull;

/// Asks for nothing after the last one. Saved is how many have been given.
class TakeOperator final : public Operator {
 public:
  TakeOperator(std::uint64_t count, std::unique_ptr<Operator> input) : count_(count), input_(std::move(input)) {}

  void start(const Pass& pass) override {
    given_ = 0;
    input_->start(pass);
  }
  Pull next(Element& out) override {
    if (given_ == count_) return Pull::kEnd;
    const Pull pull = input_->next(out);
    if (pull == Pull::kElement && out.kind != Element::Kind::kSkipped) ++given_;
    return pull;
  }
  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(given_);
    input_->save(cursor);
  }
  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    given_ = cursor.number();
    input_->restore(pass, cursor);
  }

 private:
  const std::uint64_t count_;
  std::unique_ptr<Operator> input_;
  std::uint64_t given_ = 0;
};

}  // namespace

std::unique_ptr<Operator> make_operator(const TakeStage& stage, StreamContext&, std::unique_ptr<Operator> input) {
  return std::make_unique<TakeOperator>(stage.count, std::move(input));
}

}  // namespace stage

Pipeline Pipeline::take(std::uint64_t count) const { return with(TakeStage{count}, plan_->schemas.back()); }

}  // namespace penstock
