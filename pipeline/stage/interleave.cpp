// Ranges that are open side by side, from which samples are taken in turn: as flat_map, but mixed.
#include <penstock/pipeline/pipeline.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/child_range.h>
#include <penstock/pipeline/stage/cursor_part.h>
#include <penstock/pipeline/stage/output_fields.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

constexpr const char* kName = "interleave";

/// Places of the cycle are visited in turn, `block_length` children each; an empty place, or one whose range has ended,
/// takes the next parent when its turn comes. Saved as [place, children taken in this turn, has the input ended], for
/// each place [0] or [1 + children returned, the input's cursor before the parent], and the input's own: the parents
/// are pulled again, and those children passed over.
class InterleaveOperator final : public engine::Operator {
 public:
  InterleaveOperator(engine::StreamContext& context, stage::ChildStage stage, const Interleave& options,
                     std::unique_ptr<engine::Operator> input)
      : context_(context),
        stage_(std::move(stage)),
        block_length_(options.block_length),
        input_(std::move(input)),
        counter_(context.counter(stage_.name)),
        producing_(context, stage_.name),
        places_(options.cycle_length) {}

  ~InterleaveOperator() override { reset(); }

  void start(const engine::Pass& pass) override {
    reset();
    input_->start(pass);
  }

  Pull next(Element& out) override {
    out = {};  // its bytes may be those that are needed here
    if (reopening_ && reopen() == Pull::kPending) return Pull::kPending;
    for (;;) {
      Place& place = places_[at_];
      if (place.range) {
        const Pull pull = place.range->next(out, producing_);
        if (pull == Pull::kEnd) {
          close(place);
          advance();
          continue;
        }
        if (pull == Pull::kElement && out.kind != Element::Kind::kSkipped && ++taken_ == block_length_) advance();
        return pull;
      }
      if (!ended_) {
        Element parent;
        const Pull pull = next_parent(parent);
        if (pull == Pull::kPending) return pull;
        if (pull == Pull::kEnd) {
          ended_ = true;
        } else if (parent.kind == Element::Kind::kSkipped) {
          knows_before_ = false;
          out = std::move(parent);
          return Pull::kElement;
        } else {
          place.before = std::move(before_);
          knows_before_ = false;
          open(place, std::move(parent));
        }
      } else if (open_count_ == 0) {
        return Pull::kEnd;
      } else {
        advance();
      }
    }
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.insert(cursor.numbers.end(), {at_, taken_, ended_ ? std::uint64_t{1} : 0});
    for (const Place& place : places_) {
      if (!place.is_open) {
        cursor.numbers.push_back(0);
        continue;
      }
      cursor.numbers.push_back(1 + (place.range ? place.range->returned() : place.skip));
      stage::append_part(cursor, place.before);
    }
    if (knows_before_) {
      stage::append_part(cursor, before_);
    } else {
      Cursor own;
      input_->save(own);
      stage::append_part(cursor, own);
    }
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    reset();
    pass_ = pass;
    at_ = static_cast<std::size_t>(cursor.number());
    taken_ = cursor.number();
    ended_ = cursor.number() != 0;
    if (at_ >= places_.size() || taken_ >= block_length_) throw_foreign();
    for (Place& place : places_) {
      const std::uint64_t of_place = cursor.number();
      if (of_place == 0) continue;
      place.is_open = true;
      place.skip = of_place - 1;
      place.before = stage::read_part(cursor);
      ++open_count_;
    }
    before_ = stage::read_part(cursor);
    knows_before_ = true;
    reopening_ = true;
  }

 private:
  struct Place {
    bool is_open = false;
    Cursor before;                             // the input's, from before the parent
    std::unique_ptr<stage::ChildRange> range;  // null while the place waits to be opened again
    std::uint64_t skip = 0;                    // children that were returned before `restore`
  };

  [[noreturn]] static void throw_foreign() { throw InvalidArgument("interleave: the state is that of another plan"); }

  Pull next_parent(Element& parent) {
    if (!knows_before_) {
      before_ = Cursor();
      input_->save(before_);
      knows_before_ = true;
    }
    return input_->next(parent);
  }

  void open(Place& place, Element parent) {
    if (parent.is_value()) context_.kept->keep(parent, stage_.name);
    if (!place.is_open) ++open_count_;
    place.is_open = true;
    place.range = std::make_unique<stage::ChildRange>(stage_, context_, counter_, std::move(parent));
  }

  void close(Place& place) {
    if (place.range && place.range->parent().is_value()) context_.kept->give_on(place.range->parent(), {});
    if (place.is_open) --open_count_;
    place = Place();
  }

  void advance() {
    at_ = (at_ + 1) % places_.size();
    taken_ = 0;
  }

  void place_input(const Cursor& cursor) {
    engine::CursorReader reader(cursor);
    input_->restore(pass_, reader);
    if (!reader.at_end()) throw_foreign();
  }

  // Opens the places again, one parent after the other, and then sets the input to where it was.
  Pull reopen() {
    for (Place& place : places_) {
      if (!place.is_open || place.range) continue;
      if (!sought_) place_input(place.before);
      sought_ = true;
      Element parent;
      const Pull pull = input_->next(parent);
      if (pull == Pull::kPending) return pull;
      if (pull == Pull::kEnd) throw_foreign();
      sought_ = false;
      open(place, std::move(parent));
      place.range->skip(place.skip);
    }
    place_input(before_);
    reopening_ = false;
    return Pull::kElement;
  }

  void reset() {
    for (Place& place : places_) close(place);
    at_ = 0;
    taken_ = 0;
    ended_ = false;
    knows_before_ = false;
    reopening_ = false;
    sought_ = false;
  }

  engine::StreamContext& context_;
  const stage::ChildStage stage_;
  const std::size_t block_length_;
  const std::unique_ptr<engine::Operator> input_;
  engine::StageCounter& counter_;
  engine::Producing producing_;
  engine::Pass pass_;
  std::vector<Place> places_;
  std::size_t open_count_ = 0;
  std::size_t at_ = 0;       // the place whose turn it is
  std::uint64_t taken_ = 0;  // children in this turn
  bool ended_ = false;       // the input has
  Cursor before_;            // the input's, from before the next parent
  bool knows_before_ = false;
  bool reopening_ = false;  // after `restore`
  bool sought_ = false;     // the input stands before the parent of the next place to be opened again
};

}  // namespace

Pipeline Pipeline::interleave(std::function<SampleRange(const Sample&)> function, Interleave options,
                              Outputs outputs) const {
  if (!function) throw InvalidArgument("interleave: a stage without a function");
  if (options.cycle_length == 0) throw InvalidArgument("interleave: a cycle_length of 0; at least 1 is needed");
  if (options.block_length == 0) throw InvalidArgument("interleave: a block_length of 0; at least 1 is needed");
  Schema after = stage::output_schema(kName, plan_->schemas.back(), outputs);
  StreamStage stage;
  stage.name = kName;
  stage.text = "interleave(cycle " + std::to_string(options.cycle_length) + ", block " +
               std::to_string(options.block_length) + ")";
  stage.size = [](const auto&) { return std::nullopt; };
  stage.make = [children = stage::ChildStage{kName, std::move(function), after}, options](
                   engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<InterleaveOperator>(context, children, options, std::move(inputs.front()));
  };
  stage.keeps_elements = true;
  return with(std::make_shared<const StreamStage>(std::move(stage)), std::move(after));
}

}  // namespace penstock
