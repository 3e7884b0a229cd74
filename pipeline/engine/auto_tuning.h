// The tuner at work on one loader: watches what is delivered and turns the engine's knobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <penstock/pipeline/engine/tuner.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/runtime.h>

namespace penstock::engine {

class LoaderEngine;

/// `delivered` from the consuming thread, `decisions` from any.
class AutoTuning {
 public:
  AutoTuning(const Autotune& options, LoaderEngine& engine, const Runtime& runtime);
  /// After each result of the loader.
  void delivered(const NextResult& result);
  std::vector<TuningDecision> decisions() const;

 private:
  void turn(const Knobs& knobs) PENSTOCK_REQUIRES(mutex_);

  LoaderEngine& engine_;
  Runtime runtime_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::uint64_t batches_ = 0;
  std::uint64_t samples_ = 0;
  mutable Mutex mutex_;
  Tuner tuner_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::engine
