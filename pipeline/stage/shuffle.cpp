// An exact permutation where the number of samples is known and they can be had in any order; of a stream, exact
// permutations of windows.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/order/permutation.h>
#include <penstock/pipeline/stage/operators.h>
#include <penstock/pipeline/stage/repeatable_input.h>

namespace penstock {
namespace stage {
namespace {

using engine::Charge;
using engine::Element;
using engine::Pass;
using engine::Pull;

/// The first window has a length drawn by the epoch, so that borders move; all others have `buffer` elements. Before
/// element j is given, those up to j + buffer have been pulled: at most `buffer` are kept, always as many, and the
/// input is asked at the pace of the output. So an element is given less than `buffer` places from where it was.
/// Saved are the number of the window, how many of it have been given, and the input's cursor before it.
class ShuffleOperator final : public Operator {
 public:
  ShuffleOperator(const Shuffle& options, StreamContext& context, std::unique_ptr<Operator> input)
      : buffer_(options.buffer),
        key_(mix_lineage(mix_lineage(options.seed.value_or(context.seed), 0x5357), context.shuffle_count++)),
        context_(context),
        producing_(context, "shuffle"),
        counter_(context.counter("shuffle")),
        input_(std::move(input)) {}
  ~ShuffleOperator() override { drop_all(); }

  void start(const Pass& pass) override {
    begin(pass);
    window_ = given_ = given_before_ = 0;
    input_.start(pass);
  }

  Pull next(Element& out) override {
    out = {};
    while (true) {
      if (const std::optional<Pull> pull = pull_ahead(out)) return *pull;
      if (input_.number() <= window_start()) return Pull::kEnd;
      const std::uint64_t length = std::min(window_end(), input_.number()) - window_start();
      if (given_ >= length) {
        throw InvalidArgument("state: it belongs to another plan: a window of the shuffle is shorter");
      }
      if (!permutation_) permutation_.emplace(length, window_key());
      if (given_before_ == 0) return give(length, out);
      drop_given();
    }
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.insert(cursor.numbers.end(), {window_, given_});
    input_.save(cursor, std::min(window_start(), input_.number()));
  }

  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    begin(pass);
    window_ = cursor.number();
    given_ = given_before_ = cursor.number();
    input_.restore(pass, cursor);
  }

 private:
  void begin(const Pass& pass) {
    drop_all();
    pass_key_ = mix_lineage(mix_lineage(key_, pass.epoch), pass.passes);
    first_length_ = 1 + Draw(pass_key_, 0, 0, 0).below(buffer_);
    permutation_.reset();
    ended_ = false;
  }
  std::uint64_t window_key() const { return mix_lineage(pass_key_, window_ + 1); }
  // `held_[i]` is element `window_start() + i`.
  std::uint64_t window_start() const { return window_ == 0 ? 0 : first_length_ + (window_ - 1) * buffer_; }
  std::uint64_t window_end() const { return first_length_ + window_ * buffer_; }
  bool is_border(std::uint64_t number) const {
    return number >= first_length_ && (number - first_length_) % buffer_ == 0;
  }
  // After `restore`, first the window alone: what was given of it is dropped before more is kept.
  std::uint64_t pull_up_to() const { return given_before_ != 0 ? window_end() : window_start() + given_ + buffer_; }

  // Nothing: all that is needed is there. Otherwise what `next` is to return.
  std::optional<Pull> pull_ahead(Element& out) {
    while (!ended_ && input_.number() < pull_up_to()) {
      Element element;
      const Pull pull = input_.next(element);
      if (pull == Pull::kPending) return pull;
      if (pull == Pull::kEnd) {
        ended_ = true;
      } else if (element.kind == Element::Kind::kSkipped) {
        out = std::move(element);
        return pull;
      } else {
        if (element.is_value()) context_.kept->keep(element, "shuffle");
        held_.push_back(std::move(element));
        if (is_border(input_.number())) input_.mark();
      }
    }
    return std::nullopt;
  }

  void drop_given() {
    for (std::uint64_t i = 0; i < given_before_; ++i)
      release(held_[static_cast<std::size_t>(permutation_->index_at(i))]);
    given_before_ = 0;
  }

  Pull give(std::uint64_t length, Element& out) {
    Element& element = held_[static_cast<std::size_t>(permutation_->index_at(given_))];
    const std::uint64_t bytes = element.is_value() ? element.sample.size_bytes() : 0;
    if (element.is_value()) {
      Charge charge = producing_.charge(bytes);
      if (!charge && bytes != 0) return Pull::kPending;
      context_.kept->give_on(element, std::move(charge));
    }
    out = std::exchange(element, nothing());
    counter_.add(1, {}, bytes);
    if (++given_ < length) return Pull::kElement;
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(length));
    given_ = 0;
    ++window_;
    permutation_.reset();
    input_.forget_before(window_start());
    return Pull::kElement;
  }

  static Element nothing() {
    Element element;
    element.kind = Element::Kind::kSkipped;
    return element;
  }
  void release(Element& element) {
    if (element.is_value()) context_.kept->give_on(element, Charge{});
    element = nothing();
  }
  void drop_all() {
    for (Element& element : held_) release(element);
    held_.clear();
  }

  const std::uint64_t buffer_;
  const std::uint64_t key_;
  StreamContext& context_;
  engine::Producing producing_;
  engine::StageCounter& counter_;
  RepeatableInput input_;
  std::deque<Element> held_;
  std::optional<order::Permutation> permutation_;  // of the present window, once its length is known
  std::uint64_t pass_key_ = 0;
  std::uint64_t first_length_ = 0;
  std::uint64_t window_ = 0;
  std::uint64_t given_ = 0;         // of the window
  std::uint64_t given_before_ = 0;  // of these, before `restore`, and not yet dropped
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Operator> make_operator(const ShuffleStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input) {
  return std::make_unique<ShuffleOperator>(stage.options, context, std::move(input));
}

}  // namespace stage

namespace {

// The first stage after which samples come one after the other; empty: they can be had in any order.
std::string first_stream_stage(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    const auto* const map = std::get_if<MapStage>(&stage);
    const auto* const shuffle = std::get_if<ShuffleStage>(&stage);
    if ((map && map->drops) || (shuffle && shuffle->options.buffer != 0) || std::holds_alternative<BatchStage>(stage) ||
        std::holds_alternative<std::shared_ptr<const StreamStage>>(stage)) {
      return stage_name(stage);
    }
  }
  return "";
}

}  // namespace

Pipeline Pipeline::shuffle(Shuffle options) const {
  const std::string stream_stage = first_stream_stage(*plan_);
  const bool any_order = stream_stage.empty() && plan_->source->size();
  if (any_order && options.buffer != 0) {
    throw InvalidArgument("shuffle: a buffer of " + std::to_string(options.buffer) +
                          " where all samples are permuted exactly; leave the buffer out");
  }
  if (!any_order && options.buffer == 0) {
    throw InvalidArgument(!element_count(*plan_)
                              ? "shuffle: the number of samples here is not known; give a buffer"
                              : "shuffle: after " + stream_stage + " samples come one after the other; give a buffer");
  }
  if (options.buffer == 1) throw InvalidArgument("shuffle: a buffer of 1 moves nothing; at least 2 are needed");
  if (options.buffer > (std::uint64_t{1} << 32)) {
    throw InvalidArgument("shuffle: a buffer of " + std::to_string(options.buffer) +
                          "; at most 4294967296 is possible");
  }
  return with(ShuffleStage{options}, plan_->schemas.back());
}

}  // namespace penstock
