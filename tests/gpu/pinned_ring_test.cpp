#include <atomic>
#include <cstring>
#include <latch>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/device_feed.h>

#include "gpu/devices_under_test.h"

namespace penstock::gpu {
namespace {

using testing::ThrowsMessage;

class PinnedRingTest : public testing::Test {
 protected:
  PinnedRingTest() {
    feed_.slot_bytes = 512;
    feed_.depth = 2;
    for (int i = 0; i < 3; ++i) feed_.buffers.emplace_back(device_, pinned_, 512, "buffer");
    layout_.size_bytes = 500;
    ring_ = make_pinned_ring(feed_);
  }
  BatchLease take() {
    std::optional<BatchLease> lease = ring_->try_acquire(layout_, index_++);
    EXPECT_TRUE(lease);
    return std::move(*lease);
  }
  std::shared_ptr<Device> device_ = make_host_device(test::small_runtime(), 1 << 20);
  MemoryAccounts accounts_;
  MemoryAccount pinned_ = accounts_.account("host/pinned/train");
  FeedMemory feed_;
  BatchLayout layout_;
  std::shared_ptr<BatchMemory> ring_;
  std::uint64_t index_ = 0;
};

TEST_F(PinnedRingTest, LendsEachBufferOnce) {
  EXPECT_EQ(ring_->capacity(), 3);
  std::set<const std::byte*> buffers;
  std::vector<BatchLease> leases;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(take());
    EXPECT_GE(leases.back().size_bytes(), layout_.size_bytes);
    std::memset(leases.back().data(), i, leases.back().size_bytes());
    buffers.insert(leases.back().data());
  }
  EXPECT_EQ(buffers.size(), 3);
  EXPECT_FALSE(ring_->try_acquire(layout_, 3));
  const std::byte* returned = leases[1].data();
  leases[1] = BatchLease();
  EXPECT_EQ(take().data(), returned);
}

TEST_F(PinnedRingTest, RefusesABatchLargerThanABuffer) {
  layout_.size_bytes = 513;
  EXPECT_THAT([&] { ring_->try_acquire(layout_, 7); },
              ThrowsMessage<InvalidArgument>("pinned ring: batch 7 takes 513 bytes, a buffer has 512"));
}

TEST_F(PinnedRingTest, SaysWhenABufferHasComeBack) {
  int calls = 0;
  std::vector<std::optional<BatchLease>> taken_in_callback;
  std::vector<BatchLease> leases;
  ring_->on_free([&] {
    ++calls;
    taken_in_callback.push_back(ring_->try_acquire(layout_, 0));
  });
  for (int i = 0; i < 3; ++i) leases.push_back(take());
  EXPECT_EQ(calls, 0);
  leases.pop_back();
  EXPECT_EQ(calls, 1);
  leases.pop_back();
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(taken_in_callback,
              testing::Each(testing::ResultOf([](const auto& lease) { return lease.has_value(); }, true)));
  ring_->on_free({});
  leases.pop_back();
  EXPECT_EQ(calls, 2);
}

TEST_F(PinnedRingTest, TakingTheCallbackAwayWaitsForARunningCall) {
  std::latch inside(1);
  std::latch go_on(1);
  std::atomic<bool> finished{false};
  ring_->on_free([&] {
    inside.count_down();
    go_on.wait();
    finished = true;
  });
  std::thread returning([&, lease = take()]() mutable { lease = BatchLease(); });
  inside.wait();
  std::thread opener([&] { go_on.count_down(); });
  ring_->on_free({});
  EXPECT_TRUE(finished);
  returning.join();
  opener.join();
}

TEST_F(PinnedRingTest, LeasesMayOutliveTheRing) {
  BatchLease lease = take();
  ring_.reset();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease.data(), feed_.buffers.front().data()) << "the buffer is the feed's, not the ring's";
  std::memset(lease.data(), 1, lease.size_bytes());
  EXPECT_EQ(feed_.buffers.front().data()[lease.size_bytes() - 1], std::byte{1});
  lease = BatchLease();
  EXPECT_FALSE(lease);
}

TEST_F(PinnedRingTest, ServesManyThreads) {
  std::atomic<int> lent{0};
  std::atomic<bool> too_many{false};
  std::atomic<int> calls{0};
  ring_->on_free([&] { ++calls; });
  std::vector<std::thread> threads;
  std::atomic<int> returned{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        std::optional<BatchLease> lease = ring_->try_acquire(layout_, 0);
        if (!lease) continue;
        if (lent.fetch_add(1) >= 3) too_many = true;
        lease->data()[0] = std::byte{1};
        lent.fetch_sub(1);
        lease.reset();
        ++returned;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(too_many);
  EXPECT_EQ(calls, returned);
  std::vector<BatchLease> all;
  for (int i = 0; i < 3; ++i) all.push_back(take());
}

}  // namespace
}  // namespace penstock::gpu
