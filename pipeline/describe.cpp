// A plan as text, and what is legal in it but surely wrong.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/stage/stack.h>

namespace penstock {
namespace {

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

std::string shuffle_text(const Shuffle& shuffle) {
  std::string text;
  if (shuffle.seed) text += "seed " + std::to_string(*shuffle.seed);
  if (shuffle.buffer != 0) text += (text.empty() ? "" : ", ") + ("buffer " + std::to_string(shuffle.buffer));
  return text.empty() ? "shuffle" : "shuffle(" + text + ")";
}

std::string stage_text(const Stage& stage) {
  const auto counted = [](const char* name, std::uint64_t count) { return name + ("(" + std::to_string(count) + ")"); };
  return std::visit(Cases{[](const MapStage& map) { return map.name; },
                          [](const ShuffleStage& shuffle) { return shuffle_text(shuffle.options); },
                          [&](const RepeatStage& repeat) { return counted("repeat", repeat.count); },
                          [&](const TakeStage& take) { return counted("take", take.count); },
                          [&](const SkipStage& skip) { return counted("skip", skip.count); },
                          [](const ShardStage& shard) {
                            return "shard(" + std::to_string(shard.rank) + " of " + std::to_string(shard.world) +
                                   (shard.uneven == UnevenShards::kDrop ? ", equal parts)" : ")");
                          },
                          [](const CacheStage& cache) { return "cache(" + cache.store->describe() + ")"; },
                          [](const BatchStage& batch) {
                            return "batch(" + std::to_string(batch.size) + stage::last_text(batch.last) + ")";
                          },
                          [&](const PrefetchStage& prefetch) { return counted("prefetch", prefetch.batches); },
                          [](const std::shared_ptr<const StreamStage>& stream) {
                            return stream->text.empty() ? stream->name : stream->text;
                          }},
                    stage);
}

std::string count_text(const std::optional<std::uint64_t>& count) {
  if (!count) return "number not known";
  return std::to_string(*count) + (*count == 1 ? " element" : " elements");
}

// The plan up to before stage `count`.
Plan first_stages(const Plan& plan, std::size_t count) {
  Plan part = plan;
  part.stages.resize(count);
  return part;
}

void describe_into(const Plan& plan, const std::string& indent, std::string& text) {
  const auto line = [&](const std::string& name, std::size_t stages) {
    text += indent + name + ": " + plan.schemas[stages].to_string() + "; " +
            count_text(element_count(first_stages(plan, stages))) + "\n";
  };
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    text += indent + "  input " + std::to_string(i + 1) + "\n";
    describe_into(*plan.inputs[i], indent + "    ", text);
  }
  if (plan.source) line("source", 0);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) line(stage_text(plan.stages[i]), i + 1);
}

std::string policy_text(const ErrorPolicy& policy) {
  std::string text = policy.action == OnError::kSkip      ? "on_error(skip"
                     : policy.action == OnError::kReplace ? "on_error(replace"
                                                          : "on_error(fail";
  if (policy.limit != ErrorPolicy{}.limit) text += ", at most " + std::to_string(policy.limit);
  return text + ")";
}

/// What lies before a stage.
struct Before {
  std::string batch;  // name of the first stage that makes batches, while they are not taken apart again
  int batch_depth = 0;
  bool repeat = false;
  bool shuffle = false;
  bool prefetch = false;
};

bool makes_batches(const Stage& stage) {
  const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage);
  return std::holds_alternative<BatchStage>(stage) || (stream && (*stream)->batch_depth > 0);
}

// Each says why, and what to do.
void warn(const Stage& stage, const Before& before, std::vector<std::string>& warnings) {
  const std::string name = stage_name(stage);
  const bool batched = before.batch_depth > 0;
  if (makes_batches(stage) && batched) {
    warnings.push_back(name + " after " + before.batch + " makes batches of batches; leave one of them out");
  }
  if (std::holds_alternative<ShuffleStage>(stage)) {
    if (batched) {
      warnings.push_back("shuffle after " + before.batch +
                         " moves whole batches, in which the same samples stay together; shuffle before " +
                         before.batch);
    } else if (before.repeat) {
      warnings.push_back(
          "shuffle after repeat mixes the passes, so that a sample may come again before others have come once; "
          "shuffle before repeat");
    }
  }
  if (std::holds_alternative<TakeStage>(stage) || std::holds_alternative<SkipStage>(stage)) {
    if (batched) {
      warnings.push_back(name + " after " + before.batch + " counts batches, not samples; " + name + " before " +
                         before.batch);
    }
    if (before.shuffle) {
      warnings.push_back(name + " after shuffle selects other samples in each epoch; " + name + " before shuffle");
    }
  }
  if (std::holds_alternative<ShardStage>(stage) && batched) {
    warnings.push_back("shard after " + before.batch +
                       " lets every rank read and prepare the samples of all ranks; shard before " + before.batch);
  }
  if (std::holds_alternative<CacheStage>(stage) && before.prefetch) {
    warnings.push_back(
        "cache after prefetch: prefetch counts batches that are ready, and does nothing for the cache; prefetch at the "
        "end");
  }
}

void pass(const Stage& stage, Before& before) {
  if (makes_batches(stage)) {
    if (before.batch_depth++ == 0) before.batch = stage_name(stage);
  } else if (const auto* const stream = std::get_if<std::shared_ptr<const StreamStage>>(&stage)) {
    before.batch_depth = std::max(0, before.batch_depth + (*stream)->batch_depth);
  }
  before.repeat = before.repeat || std::holds_alternative<RepeatStage>(stage);
  before.shuffle = before.shuffle || std::holds_alternative<ShuffleStage>(stage);
  before.prefetch = before.prefetch || std::holds_alternative<PrefetchStage>(stage);
}

std::vector<std::string> warnings_of(const Plan& plan) {
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    for (const std::string& warning : warnings_of(*plan.inputs[i])) {
      warnings.push_back("input " + std::to_string(i + 1) + ": " + warning);
    }
  }
  Before before;
  for (const Stage& stage : plan.stages) {
    warn(stage, before, warnings);
    pass(stage, before);
  }
  return warnings;
}

}  // namespace

std::string Pipeline::describe() const {
  std::string text;
  describe_into(*plan_, "", text);
  if (plan_->errors != ErrorPolicy{}) text += policy_text(plan_->errors) + "\n";
  for (const std::string& warning : warnings()) text += "warning: " + warning + "\n";
  return text;
}

std::vector<std::string> Pipeline::warnings() const { return warnings_of(*plan_); }

}  // namespace penstock
