// A device as the library sees it: streams, events, memory, and work that is enqueued. As thin as can be, so that the
// host device, the CUDA device and simulated devices of the tests do the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/runtime.h>

namespace penstock::gpu {

/// Handles are small values, valid for the device that made them. 0 is "none".
struct Stream {
  std::uint32_t id = 0;
  friend bool operator==(const Stream&, const Stream&) = default;
};
struct Event {
  std::uint32_t id = 0;
  friend bool operator==(const Event&, const Event&) = default;
};

/// cudaStream_t on a CUDA device; null on others.
using NativeStream = void*;

/// Device bytes [begin, begin + bytes).
struct ByteRange {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

/// One operation on a stream. On the host device `body` runs on the stream's thread, when its turn comes; on a CUDA
/// device it runs at once, on the calling thread, and launches kernels on the native stream. `reads` and `writes` are
/// all the device bytes it touches.
struct Work {
  std::string name;
  std::function<void(NativeStream)> body;
  std::vector<ByteRange> reads = {};
  std::vector<ByteRange> writes = {};
};

/// What a device says of its memory.
struct MemoryInfo {
  std::uint64_t free_bytes = 0;   ///< a hint only: others may take it
  std::uint64_t total_bytes = 0;  ///< of this process's share of the device
};

/// What a device is.
enum class DeviceKind : std::uint8_t {
  kHost,       ///< host memory and threads
  kCuda,       ///< an NVIDIA GPU
  kSimulated,  ///< of the tests: host memory, another order
};

/// Device memory is taken in multiples of this on every device, so that "one granule less" means the same everywhere.
inline constexpr std::uint64_t kSlabGranule = std::uint64_t{2} << 20;
/// Page-locked host memory is taken in multiples of this.
inline constexpr std::uint64_t kPinnedGranule = 4096;
/// Inside a slab, sizes are rounded up to this.
inline constexpr std::uint64_t kArenaAlignment = 256;

/// The smallest multiple of `multiple` that is at least `bytes`; the sum must not overflow.
constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// Streams run their operations in the order in which they were enqueued, and differ from each other only where events
/// say so. All calls may be made from any thread; calls on one stream from one thread at a time. Nothing but
/// `synchronize` and the allocations blocks. Failures are DeviceError (or DeviceMemoryLimit for memory).
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// `host`, `cuda:0 NVIDIA H200`
  virtual std::string name() const = 0;

  /// A new non-blocking stream; lives until the device ends. `high_priority` where the device has priorities.
  virtual Stream create_stream(const std::string& name, bool high_priority = false) = 0;
  /// A new event without timing; lives until the device ends.
  virtual Event create_event() = 0;
  /// `event` completes when everything enqueued on `stream` so far has. Recording again starts a new generation.
  virtual void record(Event event, Stream stream) = 0;
  /// What is enqueued on `stream` from now on waits for the generation of `event` that was recorded last. Waiting for
  /// an event that was never recorded is a mistake: std::logic_error.
  virtual void wait(Stream stream, Event event) = 0;
  /// The calling thread waits for the last recorded generation. std::logic_error when never recorded. Rethrows what an
  /// operation before it threw.
  virtual void synchronize(Event event) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// True when the last recorded generation has completed. Never blocks.
  virtual bool query(Event event) = 0;

  /// `work` after everything enqueued on `stream` so far. What its body throws is DeviceError with the name of the
  /// work.
  virtual void enqueue(Stream stream, Work work) = 0;
  /// Destination, source, bytes, stream. The host side is memory of `allocate_pinned`: anything else is refused
  /// (std::logic_error).
  virtual void copy_to_device(void* destination, const void* source, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* destination, const void* source, std::size_t bytes, Stream stream) = 0;
  virtual void fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) = 0;

  /// Device memory, 256-byte aligned at least. Throws DeviceMemoryLimit. Use MemoryAccounts, not this, to take memory.
  virtual void* allocate(std::uint64_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  /// Page-locked host memory, 4096-byte aligned. Throws DeviceMemoryLimit.
  virtual void* allocate_pinned(std::uint64_t bytes) = 0;
  virtual void free_pinned(void* memory) noexcept = 0;
  virtual MemoryInfo memory_info() const = 0;

  /// The stream in the device's own terms, for kernels of library users.
  virtual NativeStream native(Stream stream) const = 0;
  /// Calls of `allocate` and `allocate_pinned` so far: constant after preflight.
  virtual std::uint64_t allocation_count() const = 0;
};

/// Which device `open_device` takes: `auto` (a GPU only if one answers, else the host), `host`, `cuda:N`.
/// Throws InvalidArgument for other text, and for cuda where this build or machine has none (saying which).
/// `host_total_bytes`: what the host device calls its memory; 0: half of the machine's.
std::shared_ptr<Device> open_device(const std::string& choice, const Runtime& runtime,
                                    std::uint64_t host_total_bytes = 0);

/// The host device: real copies, each stream a thread of its own. `total_bytes` is a hard limit of `allocate`.
std::shared_ptr<Device> make_host_device(const Runtime& runtime, std::uint64_t total_bytes);

}  // namespace penstock::gpu
