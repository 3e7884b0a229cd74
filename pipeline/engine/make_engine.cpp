// Flat plans have an engine of their own: the fast one.
#include <penstock/pipeline/engine/make_engine.h>

#include <utility>

#include <penstock/pipeline/engine/loader_core.h>
#include <penstock/pipeline/engine/stream_core.h>
#include <penstock/pipeline/engine/stream_plan.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {

std::shared_ptr<LoaderEngine> make_engine(RuntimeState& runtime, std::shared_ptr<const Plan> plan,
                                          const LoaderOptions& options, EngineChoice choice) {
  if (plan->batch_depth == 0) throw InvalidArgument("loader: the pipeline has no batch stage; add batch(size)");
  if (choice == EngineChoice::kByPlan && is_flat(*plan)) {
    return std::make_shared<LoaderCore>(runtime, std::move(plan), options);
  }
  return std::make_shared<StreamCore>(runtime, std::move(plan), options, make_operators);
}

}  // namespace penstock::engine
