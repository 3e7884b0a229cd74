// Stages over lists of elements, and what they give as text that can be read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/stage/operators.h>

#include "support/operator_support.h"
#include "support/pipeline_support.h"

namespace penstock::test {

/// The operator of the last stage of `pipeline` over a list.
inline MakeOperator last_stage(const Pipeline& pipeline, ListOperator::Items items) {
  const Stage stage = pipeline.plan().stages.back();
  return [stage, items](engine::StreamContext& context, Pending pending) -> std::unique_ptr<engine::Operator> {
    std::unique_ptr<engine::Operator> input = std::make_unique<ListOperator>(context, items, std::move(pending));
    if (const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage)) {
      std::vector<std::unique_ptr<engine::Operator>> inputs;
      inputs.push_back(std::move(input));
      return (*stream)->make(context, std::move(inputs));
    }
    if (const auto* const batch = std::get_if<BatchStage>(&stage)) {
      return stage::make_operator(*batch, context, std::move(input));
    }
    if (const auto* const take = std::get_if<TakeStage>(&stage)) {
      return stage::make_operator(*take, context, std::move(input));
    }
    if (const auto* const skip = std::get_if<SkipStage>(&stage)) {
      return stage::make_operator(*skip, context, std::move(input));
    }
    if (const auto* const shard = std::get_if<ShardStage>(&stage)) {
      return stage::make_operator(*shard, context, std::move(input));
    }
    if (const auto* const repeat = std::get_if<RepeatStage>(&stage)) {
      return stage::make_operator(*repeat, context, std::move(input));
    }
    return stage::make_operator(std::get<ShuffleStage>(stage), context, std::move(input));
  };
}

/// The same under the policy that skips errors.
inline MakeOperator skipping(const MakeOperator& make) {
  return [make](engine::StreamContext& context, Pending pending) {
    context.skip_errors = true;
    return make(context, std::move(pending));
  };
}

/// A list from text: a digit or letter is a value (0, 1, 2, ... by its place), `!` an error, `~` a skipped one.
inline ListOperator::Items list(const std::string& text) {
  std::vector<engine::Element> all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    all.push_back(text[i] == '!'   ? error_element(i)
                  : text[i] == '~' ? skipped_element(i)
                                   : number_element(static_cast<std::int64_t>(i), i));
  }
  return ListOperator::items(std::move(all));
}

/// All numbers of field "x" of an element in brackets, or alone when it is a scalar; `!` and `~` as in `list`.
inline std::string shown(const engine::Element& element) {
  if (!element.is_value()) return element.kind == engine::Element::Kind::kError ? "!" : "~";
  const Tensor& tensor = element.sample["x"];
  std::string text;
  for (const std::int64_t value : tensor.view<std::int64_t>().span()) {
    text += (text.empty() ? "" : " ") + std::to_string(value);
  }
  return tensor.shape().rank() == 0 ? text : "[" + text + "]";
}

/// Everything that the operator gives in one pass.
inline std::vector<engine::Element> run(const MakeOperator& make, const engine::Pass& pass = {}) {
  StreamFixture fixture;
  const std::unique_ptr<engine::Operator> root = make(fixture.context, {});
  root->start(pass);
  return drain(fixture, *root);
}

inline std::string shown(const std::vector<engine::Element>& elements) {
  std::string text;
  for (const engine::Element& element : elements) text += (text.empty() ? "" : " ") + shown(element);
  return text;
}
inline std::string shown(const MakeOperator& make, const engine::Pass& pass = {}) { return shown(run(make, pass)); }

/// Lists with errors and skipped ones in every place: for the laws.
inline std::vector<ListOperator::Items> hard_lists() {
  std::vector<ListOperator::Items> all;
  for (const char* const text : {"", "0", "!", "~", "0123456", "!1~3", "01!3~5678!~", "~~!!~01234567!9abc~"}) {
    all.push_back(list(text));
  }
  return all;
}

/// Where the budget has room for one element of `bytes` only: a second one has to wait until the first has gone.
inline void expect_waits_for_room(const MakeOperator& make, std::uint64_t bytes) {
  constexpr std::uint64_t kKept = 4096;
  StreamFixture fixture({.threads = 1, .budget_bytes = kKept + bytes}, bytes, kKept);
  const auto root = make(fixture.context, {});
  root->start({});
  engine::Element first;
  ASSERT_EQ(root->next(first), engine::Pull::kElement);
  EXPECT_EQ(first.charge.bytes(), bytes);
  engine::Element second;
  EXPECT_EQ(root->next(second), engine::Pull::kPending);
  EXPECT_EQ(root->next(second), engine::Pull::kPending);
  const std::uint64_t seen = fixture.wakes();
  first = {};
  fixture.context.runtime.room_freed();
  EXPECT_GT(fixture.wakes(), seen);
  EXPECT_EQ(root->next(second), engine::Pull::kElement);
  EXPECT_TRUE(second.is_value());
}

/// What the error of an element says.
inline std::string error_text(const engine::Element& element) {
  if (!element.failure) return "no failure";
  try {
    std::rethrow_exception(element.failure->error);
  } catch (const std::exception& error) {
    return element.failure->stage + ": " + error.what();
  }
}

/// The message of the InvalidArgument that `call` throws.
template <class F>
std::string refusal(F call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A sample {"x": i64 [length], all `length`}.
inline engine::Element list_element(std::int64_t length, std::uint64_t index) {
  engine::Element element = number_element(0, index);
  const std::vector<std::int64_t> values(static_cast<std::size_t>(length), length);
  element.sample = Sample({"x"}, {Tensor::copy_of<std::int64_t>(values, {length})}, {0, index});
  return element;
}
inline ListOperator::Items lists(const std::vector<std::int64_t>& lengths) {
  std::vector<engine::Element> all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    all.push_back(lengths[i] < 0 ? error_element(i) : list_element(lengths[i], i));
  }
  return ListOperator::items(std::move(all));
}

/// A pipeline of samples {"x": i64 [?]}, for schemas.
class ListSource final : public Source {
 public:
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return 7; }
  std::string describe(std::uint64_t) const override { return "list"; }
  void read(std::uint64_t, Sink& sink, FileReader&) const override { sink.fail(nullptr); }
  std::string fingerprint(std::uint64_t) const override { return ""; }

 private:
  Schema schema_{{{"x", DataType::kI64, {Shape::kUnknown}}}};
};
inline Pipeline list_pipeline() { return Pipeline(std::make_shared<ListSource>()); }

}  // namespace penstock::test
