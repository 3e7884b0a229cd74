// From a plan to the tree of operators that runs it.
#pragma once

#include <memory>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/plan.h>

namespace penstock::engine {

/// The operators of `plan`, from the root down. A source with the stages of order that can be worked out, its maps and
/// its cache are one RowsOperator; later maps are one over the operator below; every other stage is its own operator.
/// `without_last_batch`: a batch stage with nothing but prefetch after it is left to the caller. Throws
/// InvalidArgument: a policy, a source or a cache that cannot work in this plan; a budget that cannot hold the
/// guaranteed shares.
std::unique_ptr<Operator> make_operators(const Plan& plan, StreamContext& context, bool without_last_batch);

}  // namespace penstock::engine
