// The feed. A pinned buffer and a device slot are paired only for the copy between them; each edge is an event:
//
//   loader fills pinned buffer   after  `fetched` of its copy: the Batch handle, which lends the buffer, is kept until
//   then copy into a slot             after  `used` of the slot: recorded by the lease on the consumer's stream
//   consumer reads the slot      after  `copied` of the slot: `wait_on`
//   destruction                  after  the copy stream has run empty
//
// `copied` belongs to a slot, `fetched` to a copy under way: a slot may be filled again, and its `copied` recorded
// again, while the host has not yet seen its earlier copy end. Copies run on one stream, so they end in the order of
// `copies_`.
//
// What the loader has ready is taken ahead of its use, errors and ends of epochs included, and handed out in the same
// order; so what `next()` returns depends on neither timing nor depth. A result can be a batch, so the loader is asked
// only while a slot is free. It is not asked past an error, nor past two ends (that is how a loader says "for ever").
#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <stdexcept>
#include <utility>

#include <penstock/gpu/device_feed.h>

namespace penstock::gpu {
namespace {

struct Slot {
  std::byte* data = nullptr;
  Event copied;
  Event used;
  bool was_used = false;  // `used` has been recorded
};

// What DeviceBatches share with their feed.
struct Ring {
  std::shared_ptr<Device> device;
  BatchLayout layout;
  Stream copy_stream;
  std::vector<Slot> slots;
  std::deque<std::size_t> free_slots;  // filled in the order in which they were released, so that waits are short
};

}  // namespace

struct DeviceBatch::State {
  std::shared_ptr<Ring> ring;
  std::size_t slot = 0;
  std::size_t size = 0;
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  Position position;
  std::string first_source;
  std::string last_source;
  std::vector<Stream> waiting;  // streams that may read the slot

  static State& of(const std::unique_ptr<State>& state) {
    if (!state) throw std::logic_error("device batch: it has been released or moved from");
    return *state;
  }

  void release(Stream stream) {
    Slot& mine = ring->slots[slot];
    ring->device->record(mine.used, stream);
    mine.was_used = true;
    ring->free_slots.push_back(slot);
  }

  // The slot must outlast every stream that waited for it. The copy stream waits for all but the last right here, in
  // front of the copies that come: one event, recorded again, is enough, since a wait keeps the recording it was made
  // for.
  void abandon() {
    if (waiting.empty()) {
      ring->free_slots.push_back(slot);
      return;
    }
    for (std::size_t i = 0; i + 1 < waiting.size(); ++i) {
      ring->device->record(ring->slots[slot].used, waiting[i]);
      ring->device->wait(ring->copy_stream, ring->slots[slot].used);
    }
    release(waiting.back());
  }
};

DeviceBatch::DeviceBatch(DeviceBatch&&) noexcept = default;

DeviceBatch& DeviceBatch::operator=(DeviceBatch&& other) noexcept {
  DeviceBatch taken(std::move(other));
  std::swap(state_, taken.state_);
  return *this;
}

DeviceBatch::~DeviceBatch() {
  if (!state_) return;
  try {
    state_->abandon();
  } catch (const std::exception&) {
    // The device has failed: the slot is never filled again, and the next call on the device says why.
  }
}

std::byte* DeviceBatch::field(std::size_t index) const {
  const State& state = State::of(state_);
  return state.ring->slots[state.slot].data + state.ring->layout.fields.at(index).offset;
}
const BatchLayout& DeviceBatch::layout() const { return State::of(state_).ring->layout; }
std::size_t DeviceBatch::size() const { return State::of(state_).size; }
std::uint64_t DeviceBatch::epoch() const { return State::of(state_).epoch; }
std::uint64_t DeviceBatch::index() const { return State::of(state_).index; }
Position DeviceBatch::position() const { return State::of(state_).position; }
const std::string& DeviceBatch::first_source() const { return State::of(state_).first_source; }
const std::string& DeviceBatch::last_source() const { return State::of(state_).last_source; }

void DeviceBatch::wait_on(Stream stream) const {
  State& state = State::of(state_);
  state.ring->device->wait(stream, state.ring->slots[state.slot].copied);
  std::vector<Stream>& waiting = state.waiting;
  if (std::find(waiting.begin(), waiting.end(), stream) == waiting.end()) waiting.push_back(stream);
}

void DeviceBatch::release(Stream stream) {
  State::of(state_).release(stream);
  state_.reset();
}

class DeviceFeed::Impl {
 public:
  Impl(std::shared_ptr<Device> device, const FeedMemory& memory, Loader loader)
      : ring_(std::make_shared<Ring>()), loader_(std::move(loader)), buffer_count_(memory.buffers.size()) {
    ring_->layout = loader_.layout();
    if (ring_->layout.size_bytes > memory.slot_bytes) {
      throw InvalidArgument("device feed: a batch takes " + std::to_string(ring_->layout.size_bytes) +
                            " bytes, a slot has " + std::to_string(memory.slot_bytes));
    }
    ring_->device = std::move(device);
    ring_->copy_stream = ring_->device->create_stream("feed copy");
    for (std::size_t i = 0; i < memory.depth; ++i) {
      ring_->slots.push_back({memory.slots.data() + i * memory.slot_bytes, ring_->device->create_event(),
                              ring_->device->create_event(), false});
      ring_->free_slots.push_back(i);
    }
    for (std::size_t i = 0; i < buffer_count_; ++i) free_fetched_.push_back(ring_->device->create_event());
  }

  ~Impl() { drain(); }

  std::optional<DeviceBatch> next() {
    for (;;) {
      give_back_fetched();
      top_up();
      if (!ready_.empty()) return take_front();
      if (ring_->free_slots.empty()) {
        throw std::logic_error("device feed: the caller holds all " + std::to_string(ring_->slots.size()) +
                               " slots; release a batch before asking for the next one");
      }
      const auto start = std::chrono::steady_clock::now();
      if (copies_.size() == buffer_count_ || buffers_held() == buffer_count_) {
        ring_->device->synchronize(copies_.front().fetched);
      } else {
        take_from_loader();
      }
      wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  }

  void warm_up() {
    loader_.warm_up();
    give_back_fetched();
    top_up();
  }

  Loader& loader() { return loader_; }
  double wait_seconds() const { return wait_seconds_; }

 private:
  // A result of the loader in its place: a batch, an error, or (neither) the end of an epoch.
  struct Ready {
    std::optional<DeviceBatch> batch;
    std::exception_ptr error;
  };
  struct Copy {
    Batch batch;  // lends the pinned buffer
    Event fetched;
  };

  // Waits for the copy stream; its failure is told to whoever waits for a copy.
  void drain() noexcept {
    try {
      ring_->device->synchronize(ring_->copy_stream);
    } catch (...) {
      return;
    }
  }

  void give_back_fetched() {
    while (!copies_.empty() && ring_->device->query(copies_.front().fetched)) {
      free_fetched_.push_back(copies_.front().fetched);
      copies_.pop_front();
    }
  }

  bool may_ask_ahead() const {
    if (ring_->free_slots.empty() || free_fetched_.empty()) return false;
    if (!ready_.empty() && ready_.back().error) return false;
    return std::count_if(ready_.begin(), ready_.end(),
                         [](const Ready& ready) { return !ready.batch && !ready.error; }) < 2;
  }

  void top_up() {
    while (may_ask_ahead()) {
      std::optional<NextResult> result = loader_.poll();
      if (!result) return;
      accept(std::move(*result));
    }
  }

  void take_from_loader() {
    NextResult result;
    try {
      result.batch = loader_.next();
    } catch (...) {
      result.error = std::current_exception();
    }
    accept(std::move(result));
  }

  void accept(NextResult result) {
    if (result.batch) {
      ready_.push_back({send(std::move(*result.batch)), nullptr});
    } else {
      ready_.push_back({std::nullopt, result.error});
    }
  }

  std::optional<DeviceBatch> take_front() {
    Ready front = std::move(ready_.front());
    ready_.pop_front();
    if (front.error) std::rethrow_exception(front.error);
    return std::move(front.batch);
  }

  // Two halves of a split batch lie in one buffer.
  std::size_t buffers_held() const {
    std::vector<const std::byte*> buffers;
    for (const Copy& copy : copies_) {
      if (std::find(buffers.begin(), buffers.end(), copy.batch.data()) == buffers.end()) {
        buffers.push_back(copy.batch.data());
      }
    }
    return buffers.size();
  }

  DeviceBatch send(Batch batch) {
    DeviceBatch lease;
    lease.state_ = std::make_unique<DeviceBatch::State>();
    DeviceBatch::State& state = *lease.state_;
    state.ring = ring_;
    state.size = batch.size();
    state.epoch = batch.epoch();
    state.index = batch.index();
    state.position = batch.position();
    if (batch.size() != 0) {
      state.first_source = batch.describe(0);
      state.last_source = batch.describe(batch.size() - 1);
    }
    state.slot = ring_->free_slots.front();
    ring_->free_slots.pop_front();
    copies_.push_back({std::move(batch), free_fetched_.back()});
    free_fetched_.pop_back();
    try {
      enqueue_copy(copies_.back(), ring_->slots[state.slot]);
    } catch (...) {  // the buffer may go only when nothing reads it any more
      drain();
      free_fetched_.push_back(copies_.back().fetched);
      copies_.pop_back();
      throw;
    }
    return lease;
  }

  void enqueue_copy(const Copy& copy, const Slot& slot) {
    if (slot.was_used) ring_->device->wait(ring_->copy_stream, slot.used);
    copy_rows(copy.batch, slot.data);
    ring_->device->record(slot.copied, ring_->copy_stream);
    ring_->device->record(copy.fetched, ring_->copy_stream);
  }

  // The rows of a batch go to the first rows of the slot; rows that are not there are zero.
  void copy_rows(const Batch& batch, std::byte* slot) {
    Device& device = *ring_->device;
    const BatchLayout& layout = ring_->layout;
    if (batch.size() == layout.batch_size) {
      device.copy_to_device(slot, batch.data(), layout.size_bytes, ring_->copy_stream);
      return;
    }
    for (const BatchField& field : layout.fields) {
      const std::size_t bytes = batch.size() * field.row_stride;
      const std::size_t tail_bytes = (layout.batch_size - batch.size()) * field.row_stride;
      const std::byte* rows = batch.data() + field.offset + batch.first_row() * field.row_stride;
      device.copy_to_device(slot + field.offset, rows, bytes, ring_->copy_stream);
      device.fill(slot + field.offset + bytes, 0, tail_bytes, ring_->copy_stream);
    }
  }

  std::shared_ptr<Ring> ring_;
  Loader loader_;
  const std::size_t buffer_count_;
  std::vector<Event> free_fetched_;
  std::deque<Copy> copies_;  // under way, in order
  std::deque<Ready> ready_;
  double wait_seconds_ = 0;
};

DeviceFeed::DeviceFeed(std::shared_ptr<Device> device, FeedMemory& memory, Loader loader)
    : impl_(std::make_unique<Impl>(std::move(device), memory, std::move(loader))) {}
DeviceFeed::~DeviceFeed() = default;
DeviceFeed::DeviceFeed(DeviceFeed&&) noexcept = default;
DeviceFeed& DeviceFeed::operator=(DeviceFeed&&) noexcept = default;

std::optional<DeviceBatch> DeviceFeed::next() { return impl_->next(); }
void DeviceFeed::warm_up() { impl_->warm_up(); }
Loader& DeviceFeed::loader() { return impl_->loader(); }
double DeviceFeed::wait_seconds() const { return impl_->wait_seconds(); }

}  // namespace penstock::gpu
