// Threads, byte budget and I/O that all loaders of a process share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock {

namespace engine {
class RuntimeState;
}

/// What a Runtime shares out.
struct RuntimeOptions {
  /// Worker threads for maps; 0: as many as the machine has cores.
  std::size_t threads = 0;
  /// Bytes in flight over all loaders: batches, samples read and not yet mapped, decoder memory. Not caches, not pinned
  /// rings (they have budgets of their own).
  std::uint64_t budget_bytes = std::uint64_t{1} << 30;
  /// Threads that wait for files.
  std::size_t io_threads = 4;
};

/// A shared handle: copies are the same runtime, which lives until the last copy and the last loader are gone. Safe for
/// concurrent use.
class Runtime {
 public:
  /// Starts the threads. Throws InvalidArgument for a budget of 0 or more than 1024 threads.
  explicit Runtime(const RuntimeOptions& options = {});

  std::size_t threads() const noexcept;
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
