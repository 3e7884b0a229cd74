// The text form of a position: what `Loader::state` writes.
#pragma once

#include <string>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/plan.h>

namespace penstock {

/// JSON text of `position` in `plan`, for `read_state`. Throws InvalidArgument, with its name, when a stage has a state
/// that only its user could save.
std::string state_text(const Plan& plan, const Position& position);

}  // namespace penstock
