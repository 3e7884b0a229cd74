#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/memory_accounts.h>

#include "gpu/devices_under_test.h"

namespace penstock::gpu {
namespace {

class SlabTest : public testing::Test {
 protected:
  std::uint64_t device_bytes_in_use() const {
    return device_->memory_info().total_bytes - device_->memory_info().free_bytes;
  }
  std::shared_ptr<Device> device_ = make_host_device(test::small_runtime(), 4 * kSlabGranule);
  MemoryAccounts accounts_;
  MemoryAccount model_ = accounts_.account("device/model");
  MemoryAccount pinned_ = accounts_.account("host/pinned/train");
};

TEST_F(SlabTest, IsAWholeNumberOfGranules) {
  const Slab slab(device_, model_, 1, "weights");
  EXPECT_EQ(slab.size_bytes(), kSlabGranule);
  EXPECT_EQ(model_.figures().current_bytes, kSlabGranule);
  EXPECT_EQ(device_bytes_in_use(), kSlabGranule);
  std::memset(slab.data(), 1, slab.size_bytes());
  EXPECT_EQ(Slab(device_, model_, kSlabGranule, "exact").size_bytes(), kSlabGranule);
  EXPECT_EQ(Slab(device_, model_, kSlabGranule + 1, "one more").size_bytes(), 2 * kSlabGranule);
}

TEST_F(SlabTest, PinnedSlabIsAWholeNumberOfPages) {
  const PinnedSlab slab(device_, pinned_, 4097, "buffer");
  EXPECT_EQ(slab.size_bytes(), 8192);
  EXPECT_EQ(pinned_.figures().current_bytes, 8192);
  std::memset(slab.data(), 1, slab.size_bytes());
}

TEST_F(SlabTest, TakesNothingForNoBytes) {
  const Slab slab(device_, model_, 0, "nothing");
  const PinnedSlab pinned(device_, pinned_, 0, "nothing");
  EXPECT_EQ(slab.data(), nullptr);
  EXPECT_EQ(pinned.data(), nullptr);
  EXPECT_EQ(device_->allocation_count(), 0);
}

TEST_F(SlabTest, MovesItsMemoryAndGivesBackWhatItHeld) {
  Slab first(device_, model_, 1, "a");
  std::byte* const data = first.data();
  Slab second(std::move(first));
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size_bytes(), 0);
  EXPECT_EQ(second.data(), data);
  Slab third(device_, model_, 2 * kSlabGranule, "b");
  EXPECT_EQ(device_bytes_in_use(), 3 * kSlabGranule);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(second.size_bytes(), 0);
  EXPECT_EQ(model_.figures().current_bytes, kSlabGranule);
  EXPECT_EQ(device_bytes_in_use(), kSlabGranule);
  third = Slab();
  EXPECT_EQ(model_.figures().current_bytes, 0);
  EXPECT_EQ(device_bytes_in_use(), 0);

  PinnedSlab pinned(device_, pinned_, 1, "a");
  PinnedSlab other(device_, pinned_, 4096 * 2, "b");
  other = std::move(pinned);
  EXPECT_EQ(pinned.data(), nullptr);
  EXPECT_EQ(pinned_.figures().current_bytes, 4096);
}

TEST_F(SlabTest, AccountIsAskedBeforeTheDevice) {
  accounts_.set_cap("device", kSlabGranule);
  const Slab all(device_, model_, 1, "a");
  EXPECT_THROW(Slab(device_, model_, 1, "b"), DeviceMemoryLimit);
  EXPECT_EQ(device_->allocation_count(), 1);
}

TEST_F(SlabTest, ChargeIsUndoneWhenTheDeviceRefuses) {
  EXPECT_THROW(Slab(device_, model_, 5 * kSlabGranule, "more than there is"), DeviceMemoryLimit);
  EXPECT_EQ(model_.figures().current_bytes, 0);
  EXPECT_EQ(device_bytes_in_use(), 0);
  EXPECT_THROW(Slab(device_, model_, kNoCap, "a size that cannot be rounded"), DeviceMemoryLimit);
  EXPECT_EQ(model_.figures().current_bytes, 0);
}

TEST_F(SlabTest, KeepsItsDeviceAlive) {
  Slab slab(device_, model_, 1, "a");
  device_.reset();
  std::memset(slab.data(), 1, slab.size_bytes());
  slab = Slab();
  EXPECT_EQ(model_.figures().current_bytes, 0);
}

}  // namespace
}  // namespace penstock::gpu
