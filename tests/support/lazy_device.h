// A device that runs nothing before it must, on the calling thread: what a host wait forces, and only that, or what
// streams that were named favourites can run by themselves. A missing wait between streams or towards the host, which a
// fast device hides, then changes bytes every time.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <penstock/gpu/address_ranges.h>
#include <penstock/gpu/device.h>
#include <penstock/gpu/work_error.h>

namespace penstock::test {

/// For one thread. Memory comes from a host device, with its limit, and is filled with 0xff.
class LazyDevice final : public gpu::Device {
 public:
  LazyDevice(const Runtime& runtime, std::uint64_t total_bytes)
      : memory_(gpu::make_host_device(runtime, total_bytes)) {}
  ~LazyDevice() override {
    for (std::size_t i = 0; i < streams_.size(); ++i) run_all(i);
  }

  /// Streams of this name run ahead as far as their waits allow, after every call.
  void favour(const std::string& stream_name) {
    favourites_.insert(stream_name);
    run_favourites();
  }
  std::size_t stream_count() const { return streams_.size(); }
  std::size_t event_count() const { return events_.size(); }
  /// Operations on the stream of this name that have not run.
  std::size_t pending(const std::string& stream_name) const {
    std::size_t count = 0;
    for (const StreamState& stream : streams_) count += stream.name == stream_name ? stream.queue.size() : 0;
    return count;
  }

  gpu::DeviceKind kind() const override { return gpu::DeviceKind::kSimulated; }
  std::string name() const override { return "lazy"; }
  gpu::Stream create_stream(const std::string& stream_name, bool) override {
    streams_.push_back({stream_name, {}, nullptr});
    return {static_cast<std::uint32_t>(streams_.size())};
  }
  gpu::Event create_event() override {
    events_.emplace_back();
    return {static_cast<std::uint32_t>(events_.size())};
  }
  void record(gpu::Event event, gpu::Stream stream) override {
    auto generation = std::make_shared<Generation>();
    generation->stream = index_of(stream);
    event_of(event) = generation;
    push(stream, {"record", {}, generation, nullptr});
  }
  void wait(gpu::Stream stream, gpu::Event event) override { push(stream, {"wait", {}, nullptr, recorded(event)}); }
  void synchronize(gpu::Event event) override {
    const std::shared_ptr<Generation> generation = recorded(event);
    force(*generation);
    if (generation->failure) std::rethrow_exception(generation->failure);
  }
  void synchronize(gpu::Stream stream) override {
    run_all(index_of(stream));
    if (streams_[index_of(stream)].failure) std::rethrow_exception(streams_[index_of(stream)].failure);
  }
  bool query(gpu::Event event) override { return recorded(event)->done; }

  void enqueue(gpu::Stream stream, gpu::Work work) override {
    enqueue_body(stream, std::move(work.name), [body = std::move(work.body)] { body(nullptr); });
  }
  void copy_to_device(void* destination, const void* source, std::size_t bytes, gpu::Stream stream) override {
    require_pinned(source, bytes);
    enqueue_body(stream, "copy_to_device", [=] {
      if (bytes != 0) std::memcpy(destination, source, bytes);
    });
  }
  void copy_to_host(void* destination, const void* source, std::size_t bytes, gpu::Stream stream) override {
    require_pinned(destination, bytes);
    enqueue_body(stream, "copy_to_host", [=] {
      if (bytes != 0) std::memcpy(destination, source, bytes);
    });
  }
  void fill(void* destination, std::uint8_t value, std::size_t bytes, gpu::Stream stream) override {
    enqueue_body(stream, "fill", [=] {
      if (bytes != 0) std::memset(destination, value, bytes);
    });
  }

  void* allocate(std::uint64_t bytes) override {
    void* memory = memory_->allocate(bytes);
    std::memset(memory, 0xff, bytes);
    return memory;
  }
  void free(void* memory) noexcept override { memory_->free(memory); }
  void* allocate_pinned(std::uint64_t bytes) override {
    void* memory = memory_->allocate_pinned(bytes);
    std::memset(memory, 0xff, bytes);
    pinned_.add(memory, bytes);
    return memory;
  }
  void free_pinned(void* memory) noexcept override {
    pinned_.remove(memory);
    memory_->free_pinned(memory);
  }
  gpu::MemoryInfo memory_info() const override { return memory_->memory_info(); }
  gpu::NativeStream native(gpu::Stream) const override { return nullptr; }
  std::uint64_t allocation_count() const override { return memory_->allocation_count(); }

 private:
  struct Generation {
    std::size_t stream = 0;
    bool done = false;
    std::exception_ptr failure;
  };
  struct Operation {
    std::string name;
    std::function<void()> body;
    std::shared_ptr<Generation> record;
    std::shared_ptr<Generation> wait;
  };
  struct StreamState {
    std::string name;
    std::deque<Operation> queue;
    std::exception_ptr failure;
  };

  void enqueue_body(gpu::Stream stream, std::string work, std::function<void()> body) {
    const StreamState& state = streams_[index_of(stream)];
    if (state.failure) std::rethrow_exception(state.failure);
    push(stream, {std::move(work), std::move(body), nullptr, nullptr});
  }
  void push(gpu::Stream stream, Operation operation) {
    streams_[index_of(stream)].queue.push_back(std::move(operation));
    run_favourites();
  }
  void run_favourites() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < streams_.size(); ++i) {
        while (favourites_.contains(streams_[i].name) && !streams_[i].queue.empty() && can_run(i)) {
          run_front(i);
          moved = true;
        }
      }
    }
  }
  bool can_run(std::size_t stream) const {
    const Operation& front = streams_[stream].queue.front();
    return !front.wait || front.wait->done;
  }
  void run_front(std::size_t index) {
    const Operation operation = std::move(streams_[index].queue.front());
    streams_[index].queue.pop_front();
    std::exception_ptr& failure = streams_[index].failure;
    if (operation.record) {
      operation.record->failure = failure;
      operation.record->done = true;
    } else if (operation.wait) {
      if (!failure) failure = operation.wait->failure;
    } else if (!failure) {
      try {
        try {
          operation.body();
        } catch (...) {
          gpu::throw_work_error("lazy", operation.name, streams_[index].name);
        }
      } catch (...) {
        failure = std::current_exception();
      }
    }
  }
  // One operation of the stream, or what its front waits for (favourites may then have run the front already).
  void step(std::size_t stream) {
    if (can_run(stream)) return run_front(stream);
    const std::shared_ptr<Generation> awaited = streams_[stream].queue.front().wait;
    force(*awaited);
  }
  void force(const Generation& generation) {
    while (!generation.done) step(generation.stream);
    run_favourites();
  }
  void run_all(std::size_t stream) {
    while (!streams_[stream].queue.empty()) step(stream);
    run_favourites();
  }

  std::size_t index_of(gpu::Stream stream) const {
    if (stream.id == 0 || stream.id > streams_.size()) throw std::logic_error("lazy: no such stream");
    return stream.id - 1;
  }
  std::shared_ptr<Generation>& event_of(gpu::Event event) {
    if (event.id == 0 || event.id > events_.size()) throw std::logic_error("lazy: no such event");
    return events_[event.id - 1];
  }
  std::shared_ptr<Generation> recorded(gpu::Event event) {
    if (!event_of(event)) throw std::logic_error("lazy: the event was never recorded");
    return event_of(event);
  }
  void require_pinned(const void* memory, std::size_t bytes) const {
    if (bytes != 0 && !pinned_.contains(memory, bytes)) throw std::logic_error("lazy: not in page-locked memory");
  }

  std::shared_ptr<gpu::Device> memory_;
  gpu::AddressRanges pinned_;
  std::vector<StreamState> streams_;
  std::vector<std::shared_ptr<Generation>> events_;
  std::set<std::string> favourites_;
};

}  // namespace penstock::test
