// Threads, byte budget and I/O that all loaders of a process share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock {

namespace engine {
class RuntimeState;
}

/// Keeps the runtime from disturbing the rest of the process: above all the thread that launches kernels, which loses
/// more by waiting for a core than loaders gain by having it. The loaders may become slower, never different.
struct Governor {
  /// Cores that the workers leave free: at most `cores - free_cores` of them run at once (but at least one).
  std::size_t free_cores = 0;
  /// Most of the time that a worker may be busy, in (0, 1]; the rest it sleeps, a few milliseconds at a time.
  double max_utilisation = 1.0;
  /// Added to the nice value (0 to 19) of the workers' and I/O threads: when cores are short, other threads go first.
  int nice = 0;
};

/// What a Runtime shares out.
struct RuntimeOptions {
  /// Worker threads for maps; 0: as many as the machine has cores.
  std::size_t threads = 0;
  /// Bytes in flight over all loaders: batches, samples read and not yet mapped, decoder memory. Not caches, not pinned
  /// rings (they have budgets of their own).
  std::uint64_t budget_bytes = std::uint64_t{1} << 30;
  /// Threads that wait for files, at the start; where reads take long and others wait, up to 64.
  std::size_t io_threads = 4;
  Governor governor = {};
};

/// A shared handle: copies are the same runtime, which lives until the last copy and the last loader are gone. Safe for
/// concurrent use.
class Runtime {
 public:
  /// Starts the threads. Throws InvalidArgument for a budget of 0, more than 1024 threads, or a governor out of range.
  explicit Runtime(const RuntimeOptions& options = {});

  std::size_t threads() const noexcept;
  /// Workers that may run at once: `threads()`, less what the governor keeps free, until it is set. The others sleep.
  std::size_t active_threads() const noexcept;
  /// 1 to threads(); what is beyond is cut. Changes speed, never results.
  void set_active_threads(std::size_t count) const noexcept;
  std::uint64_t budget_bytes() const noexcept;
  /// Bytes in flight now, and the most there ever were.
  std::uint64_t in_flight_bytes() const noexcept;
  std::uint64_t peak_in_flight_bytes() const noexcept;
  /// For the library's own parts.
  engine::RuntimeState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<engine::RuntimeState> state_;
};

}  // namespace penstock
