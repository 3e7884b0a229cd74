// A source with the order, the maps and the cache over it is one operator as long as rows can be placed by arithmetic;
// from the first stage on that decides by the samples, every stage is an operator over the one below.
#include <penstock/pipeline/engine/stream_plan.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/rows_operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/operators.h>

namespace penstock::engine {
namespace {

using StreamStagePtr = std::shared_ptr<const StreamStage>;

/// Operators so far, and the maps that their elements have passed: nothing once an element is no longer one sample of
/// its source with one value.
struct Made {
  std::unique_ptr<Operator> root;
  std::optional<std::vector<std::string>> identities;
};

bool is_order(const Stage& stage) {
  if (const auto* const shuffle = std::get_if<ShuffleStage>(&stage)) return shuffle->options.buffer == 0;
  return std::holds_alternative<RepeatStage>(stage) || std::holds_alternative<TakeStage>(stage) ||
         std::holds_alternative<SkipStage>(stage) || std::holds_alternative<ShardStage>(stage);
}

/// Why the samples of the plan are not chosen by arithmetic; empty when they are.
std::string first_of_a_stream(const Plan& plan) {
  if (!plan.source) return plan.stages.empty() ? "source without a size" : stage_name(plan.stages.front());
  if (!plan.source->size()) return "source without a size";
  bool batched = false;
  for (const Stage& stage : plan.stages) {
    const auto* const map = std::get_if<MapStage>(&stage);
    const auto* const shuffle = std::get_if<ShuffleStage>(&stage);
    const bool streams = std::holds_alternative<StreamStagePtr>(stage) || (map && map->drops) ||
                         (shuffle && shuffle->options.buffer != 0);
    if (streams) return stage_name(stage);
    if (batched && !std::holds_alternative<PrefetchStage>(stage)) return stage_name(stage) + " after its batch";
    batched = batched || std::holds_alternative<BatchStage>(stage);
  }
  return {};
}

void check_policy(const Plan& plan) {
  if (plan.errors.action != OnError::kReplace) return;
  const std::string stage = first_of_a_stream(plan);
  throw InvalidArgument("on_error: replace needs a plan whose samples are chosen by arithmetic" +
                        (stage.empty() ? ", and no other stages above it" : "; this one has a " + stage) +
                        "; use fail or skip");
}

class Compiler {
 public:
  Compiler(const Plan& plan, StreamContext& context, bool without_last_batch)
      : plan_(plan), context_(context), end_(plan.stages.size()) {
    while (end_ > 0 && std::holds_alternative<PrefetchStage>(plan.stages[end_ - 1])) --end_;
    if (without_last_batch && end_ > 0 && std::holds_alternative<BatchStage>(plan.stages[end_ - 1])) --end_;
  }

  Made make() {
    if (plan_.source) {
      make_leaf();
    } else {
      make_first();
    }
    while (at_ < end_) {
      const Stage& stage = plan_.stages[at_];
      if (std::holds_alternative<MapStage>(stage) || std::holds_alternative<CacheStage>(stage)) {
        make_rows();
      } else {
        make_serial(stage);
        ++at_;
      }
    }
    return std::move(made_);
  }

 private:
  /// Maps and at most one cache from here on, with prefetches and, for a leaf, stages of order between them. A cache
  /// after a filter is left to the next operator: it may not be asked for samples that the filter leaves out.
  std::vector<BoundStage> rows_stages(std::vector<Stage>* order) {
    std::vector<BoundStage> stages;
    bool cached = false;
    bool filtered = false;
    for (; at_ < end_; ++at_) {
      const Stage& stage = plan_.stages[at_];
      if (order && is_order(stage) && !filtered) {
        order->push_back(stage);
        continue;
      }
      if (std::holds_alternative<PrefetchStage>(stage)) continue;
      const auto* const map = std::get_if<MapStage>(&stage);
      const bool cache = std::holds_alternative<CacheStage>(stage);
      if ((!map && !cache) || (cache && (cached || filtered))) break;
      if (cache) check_cache();
      if (map && made_.identities && !map->drops) made_.identities->push_back(map->identity);
      cached = cached || cache;
      filtered = filtered || (map && map->drops);
      stages.push_back({&stage, &plan_.schemas[at_], &plan_.schemas[at_ + 1]});
    }
    return stages;
  }

  void check_cache() const {
    if (made_.identities) return;
    const std::string after = at_ == 0 ? "the plan's beginning" : "\"" + stage_name(plan_.stages[at_ - 1]) + "\"";
    throw InvalidArgument("cache: after " + after +
                          " an element has no identity to keep it by: it is not one sample of one source with the same "
                          "maps over it; move the cache before");
  }

  RowsProgram program(const std::vector<BoundStage>& stages, const Schema& input,
                      std::vector<std::string> identities) const {
    const bool batch_next = at_ < plan_.stages.size() && std::holds_alternative<BatchStage>(plan_.stages[at_]);
    return RowsProgram(context_, stages, input, std::move(identities),
                       batch_next ? "rows of the batch are " : "expected ");
  }

  void make_leaf() {
    const std::optional<std::uint64_t> size = plan_.source->size();
    if (!size) {
      throw InvalidArgument("loader: the source does not know its size; give it one, or write it as a generator");
    }
    made_.identities.emplace();
    const std::uint32_t number = context_.source_count++;
    context_.sources.push_back(plan_.source);
    StageCounter& counter = context_.counter("read");
    std::vector<Stage> order;
    const std::vector<BoundStage> stages = rows_stages(&order);
    // Two sources of one plan are shuffled differently unless their shuffles name the same seed.
    const std::uint64_t seed = number == 0 ? context_.seed : mix_lineage(context_.seed, number);
    RowsSource source{plan_.source, number, std::make_shared<const order::Order>(*size, order, seed), &counter};
    made_.root =
        std::make_unique<RowsOperator>(context_, program(stages, plan_.schemas.front(), {}), std::move(source));
  }

  void make_rows() {
    const Schema& input = plan_.schemas[at_];
    std::vector<std::string> passed = made_.identities.value_or(std::vector<std::string>{});
    const std::vector<BoundStage> stages = rows_stages(nullptr);
    made_.root =
        std::make_unique<RowsOperator>(context_, program(stages, input, std::move(passed)), std::move(made_.root));
  }

  /// A stage over other plans, or over nothing.
  void make_first() {
    if (plan_.stages.empty() || !std::holds_alternative<StreamStagePtr>(plan_.stages.front())) {
      throw InvalidArgument("loader: the pipeline has no source");
    }
    const StreamStage& stage = *std::get<StreamStagePtr>(plan_.stages.front());
    std::vector<std::unique_ptr<Operator>> inputs;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      check_policy(*plan_.inputs[i]);
      Made input = Compiler(*plan_.inputs[i], context_, false).make();
      inputs.push_back(std::move(input.root));
      if (i == 0) {
        made_.identities = std::move(input.identities);
      } else if (made_.identities != input.identities) {
        made_.identities.reset();
      }
    }
    if (!stage.keeps_identity || inputs.empty()) made_.identities.reset();
    made_.root = stage.make(context_, std::move(inputs));
    at_ = 1;
  }

  void make_serial(const Stage& stage) {
    std::visit(
        [&](const auto& kind) {
          using Kind = std::decay_t<decltype(kind)>;
          if constexpr (std::is_same_v<Kind, StreamStagePtr>) {
            if (!kind->keeps_identity) made_.identities.reset();
            std::vector<std::unique_ptr<Operator>> inputs;
            inputs.push_back(std::move(made_.root));
            made_.root = kind->make(context_, std::move(inputs));
          } else if constexpr (!std::is_same_v<Kind, MapStage> && !std::is_same_v<Kind, CacheStage> &&
                               !std::is_same_v<Kind, PrefetchStage>) {
            if constexpr (std::is_same_v<Kind, BatchStage>) made_.identities.reset();
            made_.root = stage::make_operator(kind, context_, std::move(made_.root));
          }
        },
        stage);
  }

  const Plan& plan_;
  StreamContext& context_;
  std::size_t end_;  // of the stages that are made
  std::size_t at_ = 0;
  Made made_;
};

}  // namespace

std::unique_ptr<Operator> make_operators(const Plan& plan, StreamContext& context, bool without_last_batch) {
  check_policy(plan);
  return Compiler(plan, context, without_last_batch).make().root;
}

}  // namespace penstock::engine
