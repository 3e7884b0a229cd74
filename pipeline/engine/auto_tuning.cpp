// Limits of the climb: threads of the runtime, a block of a whole batch, and as much read-ahead as could ever pay.
#include <penstock/pipeline/engine/auto_tuning.h>

#include <penstock/pipeline/engine/loader_engine.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

constexpr std::size_t kMostBatchesAhead = 64;
constexpr std::size_t kMostReads = 1024;

Knobs present(const LoaderEngine& engine, const Runtime& runtime) {
  Knobs knobs = engine.knobs();
  knobs.threads = runtime.active_threads();
  return knobs;
}

}  // namespace

AutoTuning::AutoTuning(const Autotune& options, LoaderEngine& engine, const Runtime& runtime)
    : engine_(engine),
      runtime_(runtime),
      tuner_(options, present(engine, runtime),
             {runtime.threads(), engine.layout().batch_size, kMostBatchesAhead, kMostReads}) {}

void AutoTuning::delivered(const NextResult& result) {
  if (!result.batch) return;
  ++batches_;
  samples_ += result.batch->size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const MutexLock lock(mutex_);
  if (const std::optional<Knobs> next = tuner_.delivered(batches_, samples_, seconds)) turn(*next);
}

void AutoTuning::turn(const Knobs& knobs) {
  try {
    engine_.turn(knobs);
    runtime_.set_active_threads(knobs.threads);
  } catch (const InvalidArgument& error) {
    tuner_.refused(error.what());
    engine_.turn(tuner_.knobs());
    runtime_.set_active_threads(tuner_.knobs().threads);
  }
}

std::vector<TuningDecision> AutoTuning::decisions() const {
  const MutexLock lock(mutex_);
  return tuner_.decisions();
}

}  // namespace penstock::engine
