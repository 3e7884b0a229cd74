// Tiles are numbered, and oneTBB shares out the numbers. A thread that waits for its tiles takes no other work of the
// arena meanwhile: bodies may hold per-thread buffers over a nested call.
#include <penstock/pipeline/engine/parallel_arena.h>

#include <algorithm>

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace penstock::engine {

struct ParallelArena::Arena {
  explicit Arena(int threads) : arena(threads, 1, tbb::task_arena::priority::high) {}
  tbb::task_arena arena;
};

ParallelArena::ParallelArena(std::size_t threads) {
  // Asked for more threads than cores, oneTBB gives a thread a core and says so on standard error.
  const int useful = std::min(static_cast<int>(threads), tbb::info::default_concurrency());
  if (useful > 1) arena_ = std::make_unique<Arena>(useful);
}

ParallelArena::~ParallelArena() = default;

void ParallelArena::run(std::int64_t n, std::int64_t tile, const TileBody& body) {
  if (n <= 0) return;
  const std::int64_t tiles = (n - 1) / tile + 1;
  const auto run_tiles = [n, tile, &body](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) body(t * tile, std::min(n, t * tile + tile));
  };
  if (!arena_ || tiles == 1) {
    run_tiles(0, tiles);
    return;
  }
  arena_->arena.execute([&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, tiles),
                        [&](const tbb::blocked_range<std::int64_t>& range) { run_tiles(range.begin(), range.end()); });
    });
  });
}

}  // namespace penstock::engine
