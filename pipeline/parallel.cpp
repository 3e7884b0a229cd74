// The loop itself is the runtime's arena; see engine/parallel_arena.h.
#include <penstock/pipeline/parallel.h>

#include <string>

#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/error.h>

namespace penstock {

void parallel_for(const Runtime& runtime, std::int64_t n, std::int64_t tile, TileBody body) {
  if (tile < 1) throw InvalidArgument("parallel_for: tiles of " + std::to_string(tile) + "; at least 1 is needed");
  runtime.state().parallel_arena().run(n, tile, body);
}

}  // namespace penstock
