// A state that is carried from sample to sample.
#include <penstock/pipeline/pipeline.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/failure_text.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/output_fields.h>
#include <penstock/pipeline/stage/repeatable_input.h>
#include <penstock/pipeline/stage/stack.h>
#include <penstock/pipeline/stage/user_call.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

constexpr const char* kName = "scan";
// Elements after which the input may be asked for its state again.
constexpr std::uint64_t kMarkEvery = 32;

/// The state belongs to the last element that was returned: one that waits for memory has not changed it yet. Saved as
/// the state's text and the input's own.
class ScanOperator final : public engine::Operator {
 public:
  ScanOperator(engine::StreamContext& context, Scan scan, Schema schema, std::unique_ptr<engine::Operator> input)
      : context_(context),
        scan_(std::move(scan)),
        schema_(std::move(schema)),
        input_(std::move(input)),
        counter_(context.counter(kName)),
        producing_(context, kName) {}

  ~ScanOperator() override { context_.kept->give_on(state_, {}); }

  void start(const engine::Pass& pass) override {
    made_.reset();
    keep(scan_.initial);
    input_.start(pass);
  }

  Pull next(Element& out) override {
    out = {};  // its bytes may be those that are needed here
    if (!made_) {
      if (input_.number() % kMarkEvery == 0) input_.mark();
      input_.forget_before(input_.number());
      Element element;
      const Pull pull = input_.next(element);
      if (pull != Pull::kElement) return pull;
      if (!element.is_value()) {
        out = std::move(element);
        return Pull::kElement;
      }
      try {
        const stage::UserCall call(counter_);
        auto [state, given] = scan_.step(state_.sample, element.sample);
        Sample checked = stage::conforming(given, schema_, stage::first_origin(element));
        made_.emplace(Made{std::move(element), std::move(state), std::move(checked)});
      } catch (...) {
        out = stage::failed_or_skipped(context_, std::move(element), kName, std::current_exception());
        return Pull::kElement;
      }
    }
    return give(out);
  }

  void save(Cursor& cursor) const override {
    if (!scan_.save) {
      cursor.unsaved_stage = kName;
    } else {
      try {
        cursor.texts.push_back(scan_.save(state_.sample));
      } catch (...) {
        cursor.unsaved_stage =
            std::string(kName) + " (its save failed: " + engine::failure_text(std::current_exception()).detail + ")";
      }
    }
    input_.save(cursor, made_ ? input_.number() - 1 : input_.number());
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    if (!scan_.restore) throw InvalidArgument("scan: its state cannot be restored without Scan::restore");
    made_.reset();
    keep(scan_.restore(cursor.text()));
    input_.restore(pass, cursor);
  }

 private:
  struct Made {
    Element from;
    Sample state;
    Sample sample;
  };

  void keep(Sample state) {
    context_.kept->give_on(state_, {});
    state_.sample = std::move(state);
    context_.kept->keep(state_, kName);
  }

  Pull give(Element& out) {
    const std::uint64_t bytes = made_->sample.size_bytes();
    try {
      engine::Charge charge = producing_.charge(bytes);
      if (!charge) return Pull::kPending;
      out = stage::without_sample(made_->from);
      out.row_origins = stage::row_origins(made_->from, made_->sample);
      out.sample = std::move(made_->sample);
      out.charge = std::move(charge);
    } catch (const DataError&) {
      out = stage::failed_or_skipped(context_, std::move(made_->from), kName, std::current_exception());
      made_.reset();
      return Pull::kElement;
    }
    keep(std::move(made_->state));
    made_.reset();
    counter_.add(1, {}, bytes);
    return Pull::kElement;
  }

  engine::StreamContext& context_;
  const Scan scan_;
  const Schema schema_;
  stage::RepeatableInput input_;
  engine::StageCounter& counter_;
  engine::Producing producing_;
  Element state_;             // its sample is the state
  std::optional<Made> made_;  // what the next element is to be, while it waits for memory
};

}  // namespace

Pipeline Pipeline::scan(Scan scan, Outputs outputs) const {
  if (!scan.step) throw InvalidArgument("scan: a stage without a function");
  if (!scan.save != !scan.restore) throw InvalidArgument("scan: save and restore go together; one of them is missing");
  Schema after = stage::output_schema(kName, plan_->schemas.back(), outputs);
  StreamStage stage;
  stage.name = kName;
  stage.text = kName;
  stage.size = [](const auto& inputs) { return inputs.front(); };
  stage.make = [scan = std::move(scan), after](engine::StreamContext& context,
                                               std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<ScanOperator>(context, scan, after, std::move(inputs.front()));
  };
  stage.keeps_elements = true;
  return with(std::make_shared<const StreamStage>(std::move(stage)), std::move(after));
}

}  // namespace penstock
