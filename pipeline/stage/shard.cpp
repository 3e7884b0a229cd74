// One rank's part of the order.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/operators.h>
#include <penstock/pipeline/stage/repeatable_input.h>

namespace penstock {
namespace stage {
namespace {

using engine::Charge;
using engine::Element;
using engine::Pass;
using engine::Pull;

/// Every `world`-th element. Saved is the place of the next one within its group of `world`.
class ShardOperator final : public Operator {
 public:
  ShardOperator(const ShardStage& stage, std::unique_ptr<Operator> input) : stage_(stage), input_(std::move(input)) {}

  void start(const Pass& pass) override {
    place_ = 0;
    input_->start(pass);
  }
  Pull next(Element& out) override {
    while (true) {
      out = {};
      const Pull pull = input_->next(out);
      if (pull != Pull::kElement || out.kind == Element::Kind::kSkipped) return pull;
      const std::uint64_t place = place_;
      place_ = (place_ + 1) % stage_.world;
      if (place == stage_.rank) return pull;
    }
  }
  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(place_);
    input_->save(cursor);
  }
  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    place_ = cursor.number();
    input_->restore(pass, cursor);
  }

 private:
  const ShardStage stage_;
  std::unique_ptr<Operator> input_;
  std::uint64_t place_ = 0;
};

/// The same, but an element is given once its whole group of `world` is known to be there, and kept until then. Saved
/// is the input's cursor before the group.
class EqualShardOperator final : public Operator {
 public:
  EqualShardOperator(const ShardStage& stage, StreamContext& context, std::unique_ptr<Operator> input)
      : stage_(stage), context_(context), producing_(context, "shard"), input_(std::move(input)) {}
  ~EqualShardOperator() override { drop_kept(); }

  void start(const Pass& pass) override {
    drop_kept();
    place_ = group_ = 0;
    input_.start(pass);
  }
  Pull next(Element& out) override {
    out = {};
    while (place_ < stage_.world) {
      Element element;
      if (const Pull pull = input_.next(element); pull != Pull::kElement) return pull;
      if (element.kind == Element::Kind::kSkipped) {
        out = std::move(element);
        return Pull::kElement;
      }
      if (place_++ != stage_.rank) continue;
      if (element.is_value()) context_.kept->keep(element, "shard");
      kept_ = std::move(element);
    }
    if (kept_.is_value()) {
      const std::uint64_t bytes = kept_.sample.size_bytes();
      Charge charge = producing_.charge(bytes);
      if (!charge && bytes != 0) return Pull::kPending;
      context_.kept->give_on(kept_, std::move(charge));
    }
    out = std::exchange(kept_, nothing());
    place_ = 0;
    input_.mark();
    group_ = input_.number();
    input_.forget_before(group_);
    return Pull::kElement;
  }
  void save(Cursor& cursor) const override { input_.save(cursor, group_); }
  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    drop_kept();
    place_ = 0;
    input_.restore(pass, cursor);
    group_ = input_.number();
  }

 private:
  static Element nothing() {
    Element element;
    element.kind = Element::Kind::kSkipped;
    return element;
  }
  void drop_kept() {
    if (kept_.is_value()) context_.kept->give_on(kept_, Charge{});
    kept_ = nothing();
  }

  const ShardStage stage_;
  StreamContext& context_;
  engine::Producing producing_;
  RepeatableInput input_;
  Element kept_ = nothing();
  std::uint64_t place_ = 0;  // elements of the group so far
  std::uint64_t group_ = 0;  // number of its first element
};

}  // namespace

std::unique_ptr<Operator> make_operator(const ShardStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input) {
  if (stage.uneven == UnevenShards::kKeep) return std::make_unique<ShardOperator>(stage, std::move(input));
  return std::make_unique<EqualShardOperator>(stage, context, std::move(input));
}

}  // namespace stage

Pipeline Pipeline::shard(std::uint64_t rank, std::uint64_t world, UnevenShards uneven) const {
  if (world == 0 || rank >= world) {
    throw InvalidArgument("shard: rank " + std::to_string(rank) + " of " + std::to_string(world) +
                          "; ranks are counted from 0 and lie below the number of ranks");
  }
  return with(ShardStage{rank, world, uneven}, plan_->schemas.back());
}

}  // namespace penstock
