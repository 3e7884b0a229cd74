// The operators of the stages that flat plans run by arithmetic, for the places where that is not possible: after a
// stage that changes how many samples there are, over a stream, or after a batch. Each is in the file of its stage.
#pragma once

#include <memory>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/plan.h>

namespace penstock::stage {

using engine::Operator;
using engine::StreamContext;

std::unique_ptr<Operator> make_operator(const ShuffleStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input);
std::unique_ptr<Operator> make_operator(const RepeatStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input);
std::unique_ptr<Operator> make_operator(const TakeStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input);
std::unique_ptr<Operator> make_operator(const SkipStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input);
std::unique_ptr<Operator> make_operator(const ShardStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input);
/// Batches as elements, for the stages after it. The last batch stage of a plan is filled by the StreamCore itself.
std::unique_ptr<Operator> make_operator(const BatchStage& stage, StreamContext& context,
                                        std::unique_ptr<Operator> input);

}  // namespace penstock::stage
