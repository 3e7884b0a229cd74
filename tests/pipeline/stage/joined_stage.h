// Stages that join pipelines, or begin one, over lists of elements.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/stage/serial_stage.h"

namespace penstock::test {

/// The operator of the first stage of `pipeline` over one list for each input.
inline MakeOperator first_stage(const Pipeline& pipeline, std::vector<ListOperator::Items> lists) {
  const auto stage = std::get<std::shared_ptr<const StreamStage>>(pipeline.plan().stages.front());
  return [stage, lists = std::move(lists)](engine::StreamContext& context, const Pending& pending) {
    std::vector<std::unique_ptr<engine::Operator>> inputs;
    for (const ListOperator::Items& items : lists) {
      inputs.push_back(std::make_unique<ListOperator>(context, items, pending));
    }
    return stage->make(context, std::move(inputs));
  };
}

/// `list` with field `field` in the place of "x", from `source`, and its values counted from `first`.
inline ListOperator::Items list_of(const std::string& text, const std::string& field, std::int64_t first = 0,
                                   std::uint32_t source = 0) {
  std::vector<engine::Element> all;
  const ListOperator::Items plain = list(text);
  for (const engine::Element& element : *plain) {
    engine::Element& copy = all.emplace_back(copy_of(element));
    const std::uint64_t index = copy.origins.front().index;
    copy.origins = {{source, index}};
    copy.lineage = engine::joined_lineage(source, {copy.lineage});
    if (copy.is_value()) {
      copy.sample = Sample({field}, {Tensor::scalar<std::int64_t>(first + static_cast<std::int64_t>(index))},
                           copy.origins.front());
    }
  }
  return ListOperator::items(std::move(all));
}

/// `numbers` with another name for its field.
inline Pipeline named_numbers(std::uint64_t count, const std::string& field) {
  return numbers(count).map([field](const Sample& sample) { return Sample({field}, {sample["x"]}); },
                            {{field, DataType::kI64, {}}});
}

/// As the only one of its plan that draws and has a source.
inline MakeOperator alone(MakeOperator make) {
  return [make = std::move(make)](engine::StreamContext& context, Pending pending) {
    context.draw_count = context.source_count = 0;
    context.sources.clear();
    return make(context, std::move(pending));
  };
}

/// Everything up to the end of the pass, of an operator that has room for one element.
inline std::vector<engine::Element> drain_one_by_one(engine::Operator& root) {
  std::vector<engine::Element> all;
  engine::Element element;
  while (root.next(element) == engine::Pull::kElement) {
    all.push_back(copy_of(element));
    element = {};
  }
  return all;
}

/// One scalar sample.
inline Sample number_sample(std::int64_t value, const std::string& field = "x") {
  return Sample({field}, {Tensor::scalar<std::int64_t>(value)});
}
inline std::int64_t number_of(const Sample& sample, const std::string& field = "x") {
  return sample[field].view<std::int64_t>()[0];
}

}  // namespace penstock::test
