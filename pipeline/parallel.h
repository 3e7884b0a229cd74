// Parallel loops for the other parts, in an arena of their own beside the loaders' work, at high priority.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include <penstock/pipeline/runtime.h>

namespace penstock {

/// A reference to a callable for the length of a call: no allocation.
class TileBody {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, TileBody>)
  TileBody(F&& body) noexcept  // NOLINT(google-explicit-constructor): a parameter type, like std::function
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, std::int64_t);
};

/// Calls `body(begin, end)` once for each tile [k * tile, min(n, (k + 1) * tile)), on up to `runtime.threads()`
/// threads, a thread a core at most, the calling one included; returns when all are done. Tiles depend on `n` and
/// `tile` alone, so a reduction that keeps one partial result a tile and adds them in order is bit-equal for any thread
/// count. The first exception of a body is rethrown. May be nested and called from any thread. `tile` >= 1.
void parallel_for(const Runtime& runtime, std::int64_t n, std::int64_t tile, TileBody body);

}  // namespace penstock
