// All but the first samples.
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

/// Saved is how many have been left out.
class SkipOperator final : public Operator {
 public:
  SkipOperator(std::uint64_t count, std::unique_ptr<Operator> input) : count_(count), input_(std::move(input)) {}

  void start(const Pass& pass) override {
    left_out_ = 0;
    input_->start(pass);
  }
  Pull next(Element& out) override {
    while (true) {
      out = {};
      const Pull pull = input_->next(out);
      if (pull != Pull::kElement || out.kind == Element::Kind::kSkipped || left_out_ == count_) return pull;
      ++left_out_;
    }
  }
  // Those that have been left out since the last element was given are part of the state: nothing is given before the
  // next one, and the input stands behind them.
  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(left_out_);
    input_->save(cursor);
  }
  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    left_out_ = cursor.number();
    input_->restore(pass, cursor);
  }

 private:
  const std::uint64_t count_;
  std::unique_ptr<Operator> input_;
  std::uint64_t left_out_ = 0;
};

}  // namespace

std::unique_ptr<Operator> make_operator(const SkipStage& stage, StreamContext&, std::unique_ptr<Operator> input) {
  return std::make_unique<SkipOperator>(stage.count, std::move(input));
}

}  // namespace stage

Pipeline Pipeline::skip(std::uint64_t count) const { return with(SkipStage{count}, plan_->schemas.back()); }

}  // namespace penstock
