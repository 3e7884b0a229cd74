// The device that is host memory and threads: the default where there is no GPU. It is as strict as a GPU is, and says
// so where a GPU would only misbehave: memory it did not hand out, waits for events that nobody recorded, foreign
// handles.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <utility>

#include <penstock/gpu/address_ranges.h>
#include <penstock/gpu/device.h>
#include <penstock/gpu/device_error.h>
#include <penstock/gpu/host_stream.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

class HostDevice final : public Device {
 public:
  HostDevice(const Runtime& runtime, std::uint64_t total_bytes) : runtime_(runtime), total_bytes_(total_bytes) {}

  // Streams may wait for each other, so all may finish before any is joined.
  ~HostDevice() override {
    for (const auto& stream : streams_) stream->finish();
  }

  DeviceKind kind() const override { return DeviceKind::kHost; }
  std::string name() const override { return "host"; }

  Stream create_stream(const std::string& stream_name, bool /*high_priority*/) override {
    auto stream = std::make_unique<HostStream>("host", stream_name);
    const std::unique_lock lock(handles_mutex_);
    streams_.push_back(std::move(stream));
    return {static_cast<std::uint32_t>(streams_.size())};
  }

  Event create_event() override {
    const std::unique_lock lock(handles_mutex_);
    events_.emplace_back();
    return {static_cast<std::uint32_t>(events_.size())};
  }

  void record(Event event, Stream stream) override {
    HostStream& host_stream = stream_of(stream);
    auto generation = std::make_shared<Generation>();
    {
      const std::unique_lock lock(handles_mutex_);
      events_.at(index_of(event)) = generation;
    }
    host_stream.record(std::move(generation));
  }

  void wait(Stream stream, Event event) override { stream_of(stream).wait(recorded(event, "wait")); }

  void synchronize(Event event) override { await(*recorded(event, "synchronize")); }

  void synchronize(Stream stream) override {
    auto generation = std::make_shared<Generation>();
    stream_of(stream).record(generation);
    await(*generation);
  }

  bool query(Event event) override { return recorded(event, "query")->completed(); }

  void enqueue(Stream stream, Work work) override {
    stream_of(stream).enqueue(std::move(work.name), [body = std::move(work.body)] { body(nullptr); });
  }

  void copy_to_device(void* destination, const void* source, std::size_t bytes, Stream stream) override {
    require_pinned("copy_to_device", source, bytes);
    require_device("copy_to_device", destination, bytes);
    stream_of(stream).enqueue("copy_to_device", [=] { copy(destination, source, bytes); });
  }

  void copy_to_host(void* destination, const void* source, std::size_t bytes, Stream stream) override {
    require_pinned("copy_to_host", destination, bytes);
    require_device("copy_to_host", source, bytes);
    stream_of(stream).enqueue("copy_to_host", [=] { copy(destination, source, bytes); });
  }

  void fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) override {
    require_device("fill", destination, bytes);
    stream_of(stream).enqueue("fill", [=] {
      if (bytes != 0) std::memset(destination, value, bytes);
    });
  }

  void* allocate(std::uint64_t bytes) override {
    allocation_count_.fetch_add(1, std::memory_order_relaxed);
    std::uint64_t in_use = in_use_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > total_bytes_ - in_use) refuse("device", "device memory", bytes, in_use, total_bytes_);
    } while (!in_use_bytes_.compare_exchange_weak(in_use, in_use + bytes));
    void* memory = aligned(kArenaAlignment, bytes);
    if (memory == nullptr) {
      in_use_bytes_.fetch_sub(bytes);
      refuse("device", "device memory", bytes, in_use, total_bytes_);
    }
    device_ranges_.add(memory, bytes);
    return memory;
  }

  void free(void* memory) noexcept override {
    if (memory == nullptr) return;
    in_use_bytes_.fetch_sub(device_ranges_.remove(memory));
    std::free(memory);
  }

  void* allocate_pinned(std::uint64_t bytes) override {
    allocation_count_.fetch_add(1, std::memory_order_relaxed);
    void* memory = aligned(kPinnedGranule, bytes);
    if (memory == nullptr) refuse("host/pinned", "page-locked memory", bytes, 0, kNoCap);
    pinned_ranges_.add(memory, bytes);
    return memory;
  }

  void free_pinned(void* memory) noexcept override {
    if (memory == nullptr) return;
    pinned_ranges_.remove(memory);
    std::free(memory);
  }

  MemoryInfo memory_info() const override {
    return {.free_bytes = total_bytes_ - in_use_bytes_.load(), .total_bytes = total_bytes_};
  }

  NativeStream native(Stream stream) const override {
    stream_of(stream);
    return nullptr;
  }

  std::uint64_t allocation_count() const override { return allocation_count_.load(std::memory_order_relaxed); }

 private:
  static void copy(void* destination, const void* source, std::size_t bytes) {
    if (bytes != 0) std::memcpy(destination, source, bytes);
  }

  static void* aligned(std::uint64_t alignment, std::uint64_t bytes) {
    if (bytes > kNoCap - alignment) return nullptr;
    return std::aligned_alloc(alignment, std::max(alignment, round_up(bytes, alignment)));
  }

  [[noreturn]] static void refuse(const std::string& account, const std::string& what, std::uint64_t bytes,
                                  std::uint64_t in_use, std::uint64_t limit) {
    std::string text = "host: " + format_size(bytes) + " of " + what + " cannot be had";
    if (limit != kNoCap) text += ": " + format_size(in_use) + " of " + format_size(limit) + " are in use";
    throw DeviceMemoryLimit(text, account, what, bytes, in_use, limit);
  }

  static void await(const Generation& generation) {
    generation.wait();
    if (generation.failure()) std::rethrow_exception(generation.failure());
  }

  HostStream& stream_of(Stream stream) const {
    const std::shared_lock lock(handles_mutex_);
    if (stream.id == 0 || stream.id > streams_.size()) {
      throw std::logic_error("host: stream " + std::to_string(stream.id) + " is not one of this device");
    }
    return *streams_[stream.id - 1];
  }

  // Only with handles_mutex_ held.
  std::size_t index_of(Event event) const {
    if (event.id == 0 || event.id > events_.size()) {
      throw std::logic_error("host: event " + std::to_string(event.id) + " is not one of this device");
    }
    return event.id - 1;
  }

  std::shared_ptr<Generation> recorded(Event event, const char* call) const {
    const std::shared_lock lock(handles_mutex_);
    std::shared_ptr<Generation> generation = events_[index_of(event)];
    if (!generation) {
      throw std::logic_error(std::string("host: ") + call + ": event " + std::to_string(event.id) +
                             " was never recorded");
    }
    return generation;
  }

  void require_pinned(const char* call, const void* memory, std::size_t bytes) const {
    if (bytes == 0 || pinned_ranges_.contains(memory, bytes)) return;
    throw std::logic_error(std::string("host: ") + call + ": " + std::to_string(bytes) +
                           " bytes on the host's side do not lie in page-locked memory of this device");
  }

  void require_device(const char* call, const void* memory, std::size_t bytes) const {
    if (bytes == 0 || device_ranges_.contains(memory, bytes)) return;
    throw std::logic_error(std::string("host: ") + call + ": " + std::to_string(bytes) +
                           " bytes on the device's side do not lie in memory of this device");
  }

  const Runtime runtime_;  // what the operations run on lives as long as the device
  const std::uint64_t total_bytes_;
  std::atomic<std::uint64_t> in_use_bytes_{0};
  std::atomic<std::uint64_t> allocation_count_{0};
  AddressRanges device_ranges_;
  AddressRanges pinned_ranges_;
  mutable std::shared_mutex handles_mutex_;
  std::vector<std::shared_ptr<Generation>> events_;   // guarded by handles_mutex_: the last recording, null before
  std::vector<std::unique_ptr<HostStream>> streams_;  // guarded by handles_mutex_; ends first
};

}  // namespace

std::shared_ptr<Device> make_host_device(const Runtime& runtime, std::uint64_t total_bytes) {
  return std::make_shared<HostDevice>(runtime, total_bytes);
}

}  // namespace penstock::gpu
