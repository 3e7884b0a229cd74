// The arena of parallel_for: high priority, beside the loaders' own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/pipeline/parallel.h>

namespace penstock::engine {

/// Runs tiles on up to `threads` threads, a thread a core at most, the calling one included. Safe for concurrent use.
class ParallelArena {
 public:
  explicit ParallelArena(std::size_t threads);
  ~ParallelArena();
  /// `parallel_for` of parallel.h.
  void run(std::int64_t n, std::int64_t tile, const TileBody& body);

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;  // null: one thread, and the caller is it
};

}  // namespace penstock::engine
