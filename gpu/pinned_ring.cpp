// The pinned buffers of a feed, lent one by one. Buffers come back in any order, on any thread; they are lent again in
// the order in which they came back. Who returns one tells the loader, outside the lock, and `on_free` waits for such
// calls to end before it takes the callback away.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <penstock/gpu/device_feed.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

class PinnedRing final : public BatchMemory {
 public:
  explicit PinnedRing(const FeedMemory& memory)
      : shared_(std::make_shared<Shared>()), buffer_bytes_(memory.slot_bytes), capacity_(memory.buffers.size()) {
    for (const PinnedSlab& buffer : memory.buffers) shared_->free.push_back(buffer.data());
  }

  std::optional<BatchLease> try_acquire(const BatchLayout& layout, std::uint64_t batch_index) override {
    if (layout.size_bytes > buffer_bytes_) {
      throw InvalidArgument("pinned ring: batch " + std::to_string(batch_index) + " takes " +
                            std::to_string(layout.size_bytes) + " bytes, a buffer has " +
                            std::to_string(buffer_bytes_));
    }
    std::byte* data = nullptr;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->free.empty()) return std::nullopt;
      data = shared_->free.front();
      shared_->free.pop_front();
    }
    return BatchLease(data, buffer_bytes_, [shared = shared_, data] { shared->give_back(data); });
  }

  void on_free(std::function<void()> callback) override {
    std::unique_lock lock(shared_->mutex);
    shared_->callback = std::move(callback);
    shared_->idle.wait(lock, [this] { return shared_->calls == 0; });
  }

  std::size_t capacity() const override { return capacity_; }

 private:
  // Outlives the ring while a lease is out.
  struct Shared {
    std::mutex mutex;
    std::condition_variable idle;
    std::deque<std::byte*> free;     // guarded by mutex
    std::function<void()> callback;  // guarded by mutex
    std::size_t calls = 0;           // guarded by mutex: of the callback, running

    void give_back(std::byte* data) {
      std::unique_lock lock(mutex);
      free.push_back(data);
      if (!callback) return;
      const std::function<void()> call = callback;
      ++calls;
      lock.unlock();
      call();
      lock.lock();
      if (--calls == 0) idle.notify_all();
    }
  };

  std::shared_ptr<Shared> shared_;
  const std::uint64_t buffer_bytes_;
  const std::size_t capacity_;
};

}  // namespace

std::shared_ptr<BatchMemory> make_pinned_ring(FeedMemory& memory) { return std::make_shared<PinnedRing>(memory); }

}  // namespace penstock::gpu
