// Which engine runs a plan.
#pragma once

#include <cstdint>
#include <memory>

#include <penstock/pipeline/engine/loader_engine.h>
#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/plan.h>

namespace penstock::engine {

/// Both engines give the same batches for a flat plan, which tests want to see.
enum class EngineChoice : std::uint8_t {
  kByPlan,  ///< LoaderCore for flat plans, StreamCore for all others
  kStream,  ///< StreamCore
};

/// Not yet started. Throws InvalidArgument: no batch stage, and what the engine's constructor refuses.
std::shared_ptr<LoaderEngine> make_engine(RuntimeState& runtime, std::shared_ptr<const Plan> plan,
                                          const LoaderOptions& options, EngineChoice choice = EngineChoice::kByPlan);

}  // namespace penstock::engine
