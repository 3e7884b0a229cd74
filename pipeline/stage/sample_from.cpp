// Several inputs mixed at random, by weights.
#include <penstock/pipeline/pipeline.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/joined_inputs.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

constexpr const char* kName = "sample_from";
// Keeps the choices apart from the draws of maps with the same seed.
constexpr std::uint64_t kSeedKind = 0x5346;

struct Mix {
  Schema schema;
  std::vector<double> weights;
  SampleFrom options;
};

/// The input of element n is drawn from (seed, epoch, passes, stage, n, how many inputs are not spent), so a choice
/// that was made and not used up need not be saved. Saved as [n, is it over], for each input [has it ended, is it
/// spent, has this pass given anything, its pass], and the inputs' own.
class SampleFromOperator final : public engine::Operator {
 public:
  SampleFromOperator(engine::StreamContext& context, Mix mix, std::vector<std::unique_ptr<engine::Operator>> inputs)
      : mix_(std::move(mix)),
        seed_(mix_lineage(mix_.options.seed.value_or(context.seed), kSeedKind)),
        ordinal_(context.draw_count++),
        counter_(context.counter(kName)),
        branches_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) branches_[i].input = std::move(inputs[i]);
  }

  void start(const engine::Pass& pass) override {
    pass_ = pass;
    number_ = 0;
    over_ = false;
    for (Branch& branch : branches_) {
      branch.ended = branch.spent = branch.given = false;
      branch.pass = 0;
      branch.input->start(pass_of(branch));
    }
  }

  Pull next(Element& out) override {
    while (!over_) {
      Branch& branch = branches_[chosen()];
      const Pull pull = branch.input->next(out);
      if (pull == Pull::kEnd) {
        end(branch);
        continue;
      }
      if (pull == Pull::kElement) {
        if (out.kind != Element::Kind::kSkipped) {
          branch.given = true;
          ++number_;
        }
        if (out.is_value()) {
          out.sample = stage::in_order(std::move(out.sample), mix_.schema);
          counter_.add(1, {});
        }
      }
      return pull;
    }
    return Pull::kEnd;
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.insert(cursor.numbers.end(), {number_, std::uint64_t{over_}});
    for (const Branch& branch : branches_) {
      cursor.numbers.insert(cursor.numbers.end(), {std::uint64_t{branch.ended}, std::uint64_t{branch.spent},
                                                   std::uint64_t{branch.given}, branch.pass});
    }
    for (const Branch& branch : branches_) branch.input->save(cursor);
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    pass_ = pass;
    number_ = cursor.number();
    over_ = cursor.number() != 0;
    for (Branch& branch : branches_) {
      branch.ended = cursor.number() != 0;
      branch.spent = cursor.number() != 0;
      branch.given = cursor.number() != 0;
      branch.pass = cursor.number();
    }
    for (Branch& branch : branches_) branch.input->restore(pass_of(branch), cursor);
  }

 private:
  struct Branch {
    std::unique_ptr<engine::Operator> input;
    bool ended = false;      // at least once
    bool spent = false;      // not drawn any more: it has ended, or, with kRepeat, a whole pass gave nothing
    bool given = false;      // this pass has given an element
    std::uint64_t pass = 0;  // with kRepeat
  };

  bool repeats() const noexcept { return mix_.options.at_end == SampleFrom::AtEnd::kRepeat; }

  engine::Pass pass_of(const Branch& branch) const {
    if (!repeats()) return pass_;
    return {pass_.epoch, mix_lineage(pass_.passes, branch.pass), true};
  }

  std::size_t chosen() const {
    std::uint64_t left = 0;
    double sum = 0;
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      if (branches_[i].spent) continue;
      ++left;
      sum += mix_.weights[i];
    }
    Draw draw(seed_, pass_.epoch, mix_lineage(mix_lineage(pass_.passes, number_), left), ordinal_);
    const double point = draw.uniform(0, sum);
    std::size_t last = 0;
    double below = 0;
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      if (branches_[i].spent) continue;
      last = i;
      below += mix_.weights[i];
      if (point < below) break;
    }
    return last;
  }

  void end(Branch& branch) {
    branch.ended = true;
    over_ = mix_.options.at_end == SampleFrom::AtEnd::kStop || all_ended();
    branch.spent = !repeats() || !branch.given;
    if (over_ || branch.spent) return;
    ++branch.pass;
    branch.given = false;
    branch.input->start(pass_of(branch));
  }

  bool all_ended() const {
    for (const Branch& branch : branches_) {
      if (!branch.ended) return false;
    }
    return true;
  }

  const Mix mix_;
  const std::uint64_t seed_;
  const std::uint32_t ordinal_;
  engine::StageCounter& counter_;
  std::vector<Branch> branches_;
  engine::Pass pass_;
  std::uint64_t number_ = 0;
  bool over_ = false;
};

void require_weights(const std::vector<double>& weights, std::size_t inputs) {
  if (weights.size() != inputs) {
    throw InvalidArgument("sample_from: " + std::to_string(weights.size()) + " weights for " + std::to_string(inputs) +
                          " inputs; one each is needed");
  }
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] <= 0) {
      throw InvalidArgument("sample_from: weight " + std::to_string(i) + " is " + std::to_string(weights[i]) +
                            "; weights are finite and above 0");
    }
    sum += weights[i];
  }
  if (!std::isfinite(sum)) throw InvalidArgument("sample_from: the sum of the weights is not finite");
}

std::string text_of(const std::vector<double>& weights) {
  std::ostringstream text;
  text << kName << "(";
  for (std::size_t i = 0; i < weights.size(); ++i) text << (i > 0 ? ", " : "weights ") << weights[i];
  return text.str() + ")";
}

}  // namespace

Pipeline sample_from(std::vector<Pipeline> inputs, std::vector<double> weights, SampleFrom options) {
  stage::require_inputs(kName, inputs, 1);
  require_weights(weights, inputs.size());
  Schema after = stage::common_schema(kName, inputs);
  StreamStage stage;
  stage.name = kName;
  stage.text = text_of(weights);
  stage.size = [](const auto&) { return std::nullopt; };
  stage.make = [mix = Mix{after, std::move(weights), options}](
                   engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> operators) {
    return std::make_unique<SampleFromOperator>(context, mix, std::move(operators));
  };
  stage.random = true;
  return Pipeline::beginning(std::move(stage), inputs, std::move(after));
}

}  // namespace penstock
