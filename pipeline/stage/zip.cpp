// Samples of several inputs side by side.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/joined_inputs.h>
#include <penstock/pipeline/stage/repeatable_input.h>
#include <penstock/pipeline/stage/stack.h>
#include <penstock/pipeline/stage/user_call.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

constexpr const char* kName = "zip";
constexpr std::uint64_t kLineage = 0x5A4950;
// Elements after which an input may be asked for its state again.
constexpr std::uint64_t kMarkEvery = 32;

/// Asks the inputs one after the other and keeps what they gave until all have. An element that the policy skips takes
/// its pair with it: what follows still belongs together. Saved as [is it over], and each input's
/// own, from before the element that is kept of it.
class ZipOperator final : public engine::Operator {
 public:
  ZipOperator(engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs)
      : context_(context), counter_(context.counter(kName)), producing_(context, kName) {
    inputs_.reserve(inputs.size());
    for (std::unique_ptr<engine::Operator>& input : inputs) {
      inputs_.emplace_back(std::move(input), stage::RepeatableInput::Admit{}, stage::Skipped::kCounted);
    }
  }

  void start(const engine::Pass& pass) override {
    over_ = false;
    members_.clear();
    for (stage::RepeatableInput& input : inputs_) input.start(pass);
  }

  Pull next(Element& out) override {
    out = {};  // its bytes may be those that are needed here
    if (over_) return Pull::kEnd;
    while (members_.size() < inputs_.size()) {
      Element member;
      const Pull pull = next_member(member);
      if (pull == Pull::kPending) return pull;
      if (pull == Pull::kEnd) {
        over_ = true;
        members_.clear();
        return pull;
      }
      members_.push_back(std::move(member));
    }
    return join(out);
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(over_ ? 1 : 0);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i].save(cursor, inputs_[i].number() - (i < members_.size() ? 1 : 0));
    }
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    over_ = cursor.number() != 0;
    members_.clear();
    for (stage::RepeatableInput& input : inputs_) input.restore(pass, cursor);
  }

 private:
  Pull next_member(Element& member) {
    stage::RepeatableInput& input = inputs_[members_.size()];
    if (input.number() % kMarkEvery == 0) input.mark();
    input.forget_before(input.number());
    return input.next(member);
  }

  Pull join(Element& out) {
    Element joined;
    std::vector<std::uint64_t> lineages;
    std::uint64_t bytes = 0;
    for (const Element& member : members_) {
      lineages.push_back(member.lineage);
      joined.origins.insert(joined.origins.end(), member.origins.begin(), member.origins.end());
      bytes += member.sample.size_bytes();
    }
    joined.lineage = engine::joined_lineage(kLineage, lineages);
    const auto error =
        std::find_if_not(members_.begin(), members_.end(), [](const Element& member) { return member.is_value(); });
    if (error != members_.end()) {
      joined.kind = error->kind;
      joined.failure = error->failure;
    } else {
      try {
        joined.charge = producing_.charge(bytes);
        if (!joined.charge) return Pull::kPending;
        joined.sample = side_by_side(stage::first_origin(joined));
        counter_.add(1, {}, bytes);
      } catch (const DataError&) {
        joined = stage::failed_or_skipped(context_, std::move(joined), kName, std::current_exception());
      }
    }
    members_.clear();
    out = std::move(joined);
    return Pull::kElement;
  }

  Sample side_by_side(Origin origin) const {
    std::vector<std::string> names;
    std::vector<Tensor> tensors;
    for (const Element& member : members_) {
      names.insert(names.end(), member.sample.names().begin(), member.sample.names().end());
      tensors.insert(tensors.end(), member.sample.tensors().begin(), member.sample.tensors().end());
    }
    return Sample(std::move(names), std::move(tensors), origin);
  }

  engine::StreamContext& context_;
  std::vector<stage::RepeatableInput> inputs_;
  engine::StageCounter& counter_;
  engine::Producing producing_;
  std::vector<Element> members_;  // of the next element, of the first inputs
  bool over_ = false;
};

Schema joined_schema(const std::vector<Pipeline>& inputs) {
  std::vector<Field> fields;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const Field& field : inputs[i].schema().fields()) {
      const auto same =
          std::find_if(fields.begin(), fields.end(), [&](const Field& other) { return other.name == field.name; });
      if (same != fields.end()) {
        const std::size_t owner = owners[static_cast<std::size_t>(same - fields.begin())];
        throw InvalidArgument("zip: inputs " + std::to_string(owner) + " and " + std::to_string(i) +
                              " both have a field \"" + field.name + "\"; give it another name in one of them");
      }
      fields.push_back(field);
      owners.push_back(i);
    }
  }
  return Schema(std::move(fields));
}

}  // namespace

Pipeline zip(std::vector<Pipeline> inputs) {
  stage::require_inputs(kName, inputs, 2);
  Schema after = joined_schema(inputs);
  StreamStage stage;
  stage.name = kName;
  stage.text = "zip(" + std::to_string(inputs.size()) + " inputs)";
  stage.size = [](const std::vector<std::optional<std::uint64_t>>& sizes) -> std::optional<std::uint64_t> {
    if (std::find(sizes.begin(), sizes.end(), std::nullopt) != sizes.end()) return std::nullopt;
    return *std::min_element(sizes.begin(), sizes.end());
  };
  stage.make = [](engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> operators) {
    return std::make_unique<ZipOperator>(context, std::move(operators));
  };
  return Pipeline::beginning(std::move(stage), inputs, std::move(after));
}

}  // namespace penstock
