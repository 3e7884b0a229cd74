// The CUDA device: one call of the runtime for each call of the interface, and two checks of its own that the runtime
// does not make: host memory of a copy is page-locked (it would silently become a blocking copy), and an event that is
// waited for was recorded (it would silently be no wait). The device is set on every call, since it belongs to the
// thread.
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>

#include <cuda_runtime.h>

#include <penstock/gpu/address_ranges.h>
#include <penstock/gpu/cuda_check.h>
#include <penstock/gpu/cuda_device.h>
#include <penstock/gpu/memory_plan.h>
#include <penstock/gpu/work_error.h>

namespace penstock::gpu {
namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    set();
    cudaDeviceProp properties{};
    cuda_check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    name_ = "cuda:" + std::to_string(index_) + " " + properties.name;
    cuda_check(cudaDeviceGetStreamPriorityRange(&lowest_priority_, &highest_priority_),
               "cudaDeviceGetStreamPriorityRange");
  }

  // Streams and events return at once when destroyed with work pending: wait first. At the end of the process the
  // runtime may be gone already; there is nobody left to tell.
  ~CudaDevice() override {
    static_cast<void>(cudaSetDevice(index_));
    for (const NamedStream& stream : streams_) {
      static_cast<void>(cudaStreamSynchronize(stream.native));
      static_cast<void>(cudaStreamDestroy(stream.native));
    }
    for (const RecordedEvent& event : events_) static_cast<void>(cudaEventDestroy(event.native));
    static_cast<void>(cudaGetLastError());
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return name_; }

  Stream create_stream(const std::string& stream_name, bool high_priority) override {
    set();
    cudaStream_t native = nullptr;
    cuda_check(cudaStreamCreateWithPriority(&native, cudaStreamNonBlocking,
                                            high_priority ? highest_priority_ : lowest_priority_),
               "cudaStreamCreateWithPriority");
    const std::unique_lock lock(handles_mutex_);
    streams_.push_back({stream_name, native});
    return {static_cast<std::uint32_t>(streams_.size())};
  }

  Event create_event() override {
    set();
    cudaEvent_t native = nullptr;
    cuda_check(cudaEventCreateWithFlags(&native, cudaEventDisableTiming | cudaEventBlockingSync),
               "cudaEventCreateWithFlags");
    const std::unique_lock lock(handles_mutex_);
    events_.push_back({native, false});
    return {static_cast<std::uint32_t>(events_.size())};
  }

  void record(Event event, Stream stream) override {
    set();
    const cudaStream_t native_stream = stream_of(stream).native;
    const std::unique_lock lock(handles_mutex_);
    RecordedEvent& recorded_event = events_.at(index_of(event));
    cuda_check(cudaEventRecord(recorded_event.native, native_stream), "cudaEventRecord");
    recorded_event.recorded = true;
  }

  void wait(Stream stream, Event event) override {
    set();
    cuda_check(cudaStreamWaitEvent(stream_of(stream).native, recorded(event, "wait"), cudaEventWaitDefault),
               "cudaStreamWaitEvent");
  }

  void synchronize(Event event) override {
    set();
    cuda_check(cudaEventSynchronize(recorded(event, "synchronize")), "cudaEventSynchronize");
  }

  void synchronize(Stream stream) override {
    set();
    cuda_check(cudaStreamSynchronize(stream_of(stream).native), "cudaStreamSynchronize");
  }

  bool query(Event event) override {
    set();
    const cudaError_t status = cudaEventQuery(recorded(event, "query"));
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    cuda_check(status, "cudaEventQuery");
    return true;
  }

  void enqueue(Stream stream, Work work) override {
    set();
    const NamedStream target = stream_of(stream);
    try {
      work.body(target.native);
      cuda_check(cudaGetLastError(), "launch");
    } catch (...) {
      throw_work_error(name_, work.name, target.name);
    }
  }

  void copy_to_device(void* destination, const void* source, std::size_t bytes, Stream stream) override {
    require_pinned("copy_to_device", source, bytes);
    set();
    cuda_check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, stream_of(stream).native),
               "cudaMemcpyAsync to the device");
  }

  void copy_to_host(void* destination, const void* source, std::size_t bytes, Stream stream) override {
    require_pinned("copy_to_host", destination, bytes);
    set();
    cuda_check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, stream_of(stream).native),
               "cudaMemcpyAsync to the host");
  }

  void fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    set();
    cuda_check(cudaMemsetAsync(destination, value, bytes, stream_of(stream).native), "cudaMemsetAsync");
  }

  void* allocate(std::uint64_t bytes) override {
    allocation_count_.fetch_add(1, std::memory_order_relaxed);
    set();
    void* memory = nullptr;
    take(cudaMalloc(&memory, bytes), "cudaMalloc", "device", bytes);
    return memory;
  }

  void free(void* memory) noexcept override {
    static_cast<void>(cudaSetDevice(index_));
    if (cudaFree(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }

  void* allocate_pinned(std::uint64_t bytes) override {
    allocation_count_.fetch_add(1, std::memory_order_relaxed);
    set();
    void* memory = nullptr;
    take(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc", "host/pinned", bytes);
    pinned_ranges_.add(memory, bytes);
    return memory;
  }

  void free_pinned(void* memory) noexcept override {
    if (memory == nullptr) return;
    pinned_ranges_.remove(memory);
    static_cast<void>(cudaSetDevice(index_));
    if (cudaFreeHost(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }

  MemoryInfo memory_info() const override {
    set();
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return {.free_bytes = free_bytes, .total_bytes = total_bytes};
  }

  NativeStream native(Stream stream) const override { return stream_of(stream).native; }
  std::uint64_t allocation_count() const override { return allocation_count_.load(std::memory_order_relaxed); }

 private:
  struct NamedStream {
    std::string name;
    cudaStream_t native;
  };
  struct RecordedEvent {
    cudaEvent_t native;
    bool recorded;
  };

  void set() const { cuda_check(cudaSetDevice(index_), "cudaSetDevice"); }

  void take(cudaError_t status, const char* call, const char* account, std::uint64_t bytes) const {
    if (status != cudaErrorMemoryAllocation) return cuda_check(status, call);
    static_cast<void>(cudaGetLastError());
    const MemoryInfo info = memory_info();
    throw DeviceMemoryLimit(name_ + ": " + call + " refused " + format_size(bytes) + "; the device has " +
                                format_size(info.free_bytes) + " of " + format_size(info.total_bytes) + " free",
                            account, call, bytes, info.total_bytes - info.free_bytes, info.total_bytes);
  }

  NamedStream stream_of(Stream stream) const {
    const std::shared_lock lock(handles_mutex_);
    if (stream.id == 0 || stream.id > streams_.size()) {
      throw std::logic_error("cuda: stream " + std::to_string(stream.id) + " is not one of this device");
    }
    return streams_[stream.id - 1];
  }

  // Only with handles_mutex_ held.
  std::size_t index_of(Event event) const {
    if (event.id == 0 || event.id > events_.size()) {
      throw std::logic_error("cuda: event " + std::to_string(event.id) + " is not one of this device");
    }
    return event.id - 1;
  }

  cudaEvent_t recorded(Event event, const char* call) const {
    const std::shared_lock lock(handles_mutex_);
    const RecordedEvent& recorded_event = events_[index_of(event)];
    if (!recorded_event.recorded) {
      throw std::logic_error(std::string("cuda: ") + call + ": event " + std::to_string(event.id) +
                             " was never recorded");
    }
    return recorded_event.native;
  }

  void require_pinned(const char* call, const void* memory, std::size_t bytes) const {
    if (bytes == 0 || pinned_ranges_.contains(memory, bytes)) return;
    throw std::logic_error(std::string("cuda: ") + call + ": " + std::to_string(bytes) +
                           " bytes on the host's side do not lie in page-locked memory of this device");
  }

  const int index_;
  std::string name_;
  int lowest_priority_ = 0;
  int highest_priority_ = 0;
  std::atomic<std::uint64_t> allocation_count_{0};
  AddressRanges pinned_ranges_;
  mutable std::shared_mutex handles_mutex_;
  std::vector<NamedStream> streams_;   // guarded by handles_mutex_
  std::vector<RecordedEvent> events_;  // guarded by handles_mutex_
};

}  // namespace

CudaPresence find_cuda() {
  CudaPresence presence;
  const cudaError_t status = cudaGetDeviceCount(&presence.device_count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {.device_count = 0, .reason = cudaGetErrorString(status)};
  }
  if (presence.device_count == 0) presence.reason = "there is no CUDA device";
  return presence;
}

std::shared_ptr<Device> make_cuda_device(int index) { return std::make_shared<CudaDevice>(index); }

}  // namespace penstock::gpu
