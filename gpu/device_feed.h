// Puts the batches of a loader into device memory ahead of their use: a ring of pinned buffers that the loader fills, a
// ring of device slots, one copy stream, and an event on every edge. Nothing waits that need not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <penstock/gpu/device.h>
#include <penstock/gpu/preflight.h>
#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/loader.h>

namespace penstock::gpu {

/// The pinned buffers of a feed as a BatchMemory: give it to the loader (LoaderOptions::memory), and the loader to the
/// feed. `memory.buffers` stay owned by the JobMemory, which must outlive it, and every batch in it.
std::shared_ptr<BatchMemory> make_pinned_ring(FeedMemory& memory);

/// A batch in a device slot: a lease, given back by `release`. Going out of scope gives the slot back too: it is filled
/// again once everything enqueued so far on the streams of `wait_on` has run. Move-only; moved-from is empty.
class DeviceBatch {
 public:
  DeviceBatch() = default;
  DeviceBatch(DeviceBatch&&) noexcept;
  DeviceBatch& operator=(DeviceBatch&&) noexcept;
  ~DeviceBatch();

  /// Device address of a field's first row: rows are dense, `layout().batch_size` rows are there, `size()` are valid,
  /// the rest is zero.
  std::byte* field(std::size_t index) const;
  const BatchLayout& layout() const;
  /// Valid rows.
  std::size_t size() const;
  /// Epoch the batch belongs to, its number within it, and where the pipeline stands after it.
  std::uint64_t epoch() const;
  std::uint64_t index() const;
  Position position() const;
  /// Paths of the first and the last valid row, as the source describes them; empty without rows.
  const std::string& first_source() const;
  const std::string& last_source() const;

  /// Makes `stream` wait until the copy has arrived. Must be called before work that reads the slot is enqueued.
  void wait_on(Stream stream) const;
  /// The slot may be overwritten once everything enqueued on `stream` so far has run. Empties the lease.
  void release(Stream stream);

 private:
  friend class DeviceFeed;
  struct State;
  std::unique_ptr<State> state_;
};

/// Feeds one loader to one device. Not safe for concurrent use. Outlives its DeviceBatches; destruction drains its
/// stream.
class DeviceFeed {
 public:
  /// `loader` must write into the pinned ring of `memory`. Creates its stream and events here and never again.
  DeviceFeed(std::shared_ptr<Device> device, FeedMemory& memory, Loader loader);
  ~DeviceFeed();
  DeviceFeed(DeviceFeed&&) noexcept;
  DeviceFeed& operator=(DeviceFeed&&) noexcept;

  /// The next batch, its copy under way or done; nothing at the end of an epoch. Tops the ring up with whatever the
  /// loader has ready; blocks only when no batch is on its way. Throws what the loader throws, in order;
  /// std::logic_error when the caller holds all slots.
  std::optional<DeviceBatch> next();
  /// Starts filling pinned buffers and slots. Never blocks.
  void warm_up();
  Loader& loader();
  /// Seconds that `next()` waited for the loader.
  double wait_seconds() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::gpu
