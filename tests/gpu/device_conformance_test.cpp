// What every device must do, the same for all of them.
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/device.h>
#include <penstock/gpu/device_error.h>

#include "gpu/devices_under_test.h"

namespace penstock::gpu {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t kTotalBytes = std::uint64_t{64} << 20;
constexpr std::size_t kBytes = 1000;

// Memory of a device that goes at the end of the test.
class Memory {
 public:
  Memory(Device& device, std::uint64_t bytes, bool pinned)
      : device_(device), pinned_(pinned), data_(pinned ? device.allocate_pinned(bytes) : device.allocate(bytes)) {}
  ~Memory() { pinned_ ? device_.free_pinned(data_) : device_.free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  std::vector<unsigned char> bytes(std::size_t count) const { return {data(), data() + count}; }

 private:
  Device& device_;
  bool pinned_;
  void* data_;
};

class DeviceConformanceTest : public testing::TestWithParam<test::DeviceUnderTest> {
 protected:
  void SetUp() override {
    std::string why_not;
    device_ = GetParam().make(kTotalBytes, why_not);
    if (device_) return;
    ASSERT_EQ(std::getenv("PENSTOCK_EXPECT_GPU"), nullptr) << "a GPU is expected here: " << why_not;
    GTEST_SKIP() << "no device " << GetParam().name << ": " << why_not;
  }
  std::shared_ptr<Device> device_;
};

TEST_P(DeviceConformanceTest, CopiesThereAndBack) {
  const Stream stream = device_->create_stream("compute");
  const Memory memory(*device_, kBytes, false);
  const Memory from(*device_, kBytes, true);
  const Memory to(*device_, kBytes, true);
  for (std::size_t i = 0; i < kBytes; ++i) from.data()[i] = static_cast<unsigned char>(i * 7 + 1);
  device_->copy_to_device(memory.data(), from.data(), kBytes, stream);
  device_->copy_to_host(to.data(), memory.data(), kBytes, stream);
  device_->synchronize(stream);
  EXPECT_THAT(to.bytes(kBytes), ElementsAreArray(from.bytes(kBytes)));
}

TEST_P(DeviceConformanceTest, CopiesPartsOfBlocksAndNothingAtAll) {
  const Stream stream = device_->create_stream("compute");
  const Memory memory(*device_, kBytes, false);
  const Memory host(*device_, kBytes, true);
  std::memset(host.data(), 9, kBytes);
  device_->fill(memory.data(), 1, kBytes, stream);
  device_->copy_to_device(memory.data() + 10, host.data() + 500, 20, stream);
  device_->copy_to_device(memory.data(), host.data(), 0, stream);
  device_->fill(memory.data(), 7, 0, stream);
  device_->copy_to_host(host.data(), memory.data(), kBytes, stream);
  device_->synchronize(stream);
  const std::vector<unsigned char> bytes = host.bytes(kBytes);
  EXPECT_THAT(std::vector(bytes.begin(), bytes.begin() + 10), Each(1));
  EXPECT_THAT(std::vector(bytes.begin() + 10, bytes.begin() + 30), Each(9));
  EXPECT_THAT(std::vector(bytes.begin() + 30, bytes.end()), Each(1));
}

TEST_P(DeviceConformanceTest, RunsOneStreamInOrder) {
  const Stream stream = device_->create_stream("compute");
  const Memory memory(*device_, kBytes, false);
  const Memory host(*device_, kBytes, true);
  for (int value = 1; value <= 100; ++value)
    device_->fill(memory.data(), static_cast<std::uint8_t>(value), kBytes, stream);
  device_->copy_to_host(host.data(), memory.data(), kBytes, stream);
  device_->synchronize(stream);
  EXPECT_THAT(host.bytes(kBytes), Each(100));
}

TEST_P(DeviceConformanceTest, OrdersTwoStreamsByAnEvent) {
  const Stream writer = device_->create_stream("writer");
  const Stream reader = device_->create_stream("reader", true);
  const Event written = device_->create_event();
  const Event read = device_->create_event();
  const Memory memory(*device_, kBytes, false);
  const Memory host(*device_, kBytes * 50, true);
  for (std::uint8_t value = 0; value < 50; ++value) {
    if (value != 0) device_->wait(writer, read);
    device_->fill(memory.data(), value, kBytes, writer);
    device_->record(written, writer);
    device_->wait(reader, written);
    device_->copy_to_host(host.data() + value * kBytes, memory.data(), kBytes, reader);
    device_->record(read, reader);
  }
  device_->synchronize(read);
  for (std::uint8_t value = 0; value < 50; ++value) {
    ASSERT_EQ(host.data()[value * kBytes], value);
    ASSERT_EQ(host.data()[value * kBytes + kBytes - 1], value);
  }
}

TEST_P(DeviceConformanceTest, WaitsOfTheHostCoverWhatWasRecordedLast) {
  const Stream stream = device_->create_stream("compute");
  const Event event = device_->create_event();
  const Memory memory(*device_, kBytes, false);
  const Memory host(*device_, kBytes, true);
  device_->record(event, stream);
  device_->fill(memory.data(), 3, kBytes, stream);
  device_->copy_to_host(host.data(), memory.data(), kBytes, stream);
  device_->record(event, stream);
  device_->synchronize(event);
  EXPECT_TRUE(device_->query(event));
  EXPECT_THAT(host.bytes(kBytes), Each(3));
}

TEST_P(DeviceConformanceTest, RefusesEventsThatWereNeverRecorded) {
  const Stream stream = device_->create_stream("compute");
  const Event event = device_->create_event();
  const auto never = ThrowsMessage<std::logic_error>(HasSubstr("never recorded"));
  EXPECT_THAT([&] { device_->wait(stream, event); }, never);
  EXPECT_THAT([&] { device_->synchronize(event); }, never);
  EXPECT_THAT([&] { device_->query(event); }, never);
}

TEST_P(DeviceConformanceTest, RefusesHandlesThatItDidNotMake) {
  EXPECT_THROW(device_->synchronize(Stream{}), std::logic_error);
  EXPECT_THROW(device_->synchronize(Stream{1000}), std::logic_error);
  EXPECT_THROW(device_->query(Event{}), std::logic_error);
  EXPECT_THROW(device_->query(Event{1000}), std::logic_error);
}

TEST_P(DeviceConformanceTest, RefusesHostMemoryThatIsNotPageLocked) {
  const Stream stream = device_->create_stream("compute");
  const Memory memory(*device_, kBytes, false);
  const Memory host(*device_, kBytes, true);
  std::vector<unsigned char> pageable(kBytes);
  const auto refused = ThrowsMessage<std::logic_error>(HasSubstr("page-locked memory"));
  EXPECT_THAT([&] { device_->copy_to_device(memory.data(), pageable.data(), kBytes, stream); }, refused);
  EXPECT_THAT([&] { device_->copy_to_host(pageable.data(), memory.data(), kBytes, stream); }, refused);
  EXPECT_THAT([&] { device_->copy_to_device(memory.data(), host.data() + 1, kBytes, stream); }, refused);
  device_->synchronize(stream);
}

TEST_P(DeviceConformanceTest, ForgetsPageLockedMemoryThatWasFreed) {
  const Stream stream = device_->create_stream("compute");
  const Memory memory(*device_, kBytes, false);
  void* host = device_->allocate_pinned(kBytes);
  device_->free_pinned(host);
  EXPECT_THAT([&] { device_->copy_to_device(memory.data(), host, kBytes, stream); },
              ThrowsMessage<std::logic_error>(HasSubstr("page-locked memory")));
}

TEST_P(DeviceConformanceTest, TellsWhichOperationFailed) {
  const Stream stream = device_->create_stream("compute");
  const auto failing = [&] {
    device_->enqueue(stream, {"gemm", [](NativeStream) { throw std::runtime_error("k is 0"); }, {}, {}});
    device_->synchronize(stream);
  };
  EXPECT_THAT(failing, ThrowsMessage<DeviceError>(HasSubstr("operation \"gemm\" on stream \"compute\": k is 0")));
}

TEST_P(DeviceConformanceTest, GivesWorkItsNativeStream) {
  const Stream stream = device_->create_stream("compute");
  NativeStream seen = &device_;
  device_->enqueue(stream, {"look", [&seen](NativeStream native) { seen = native; }, {}, {}});
  device_->synchronize(stream);
  EXPECT_EQ(seen, device_->native(stream));
}

TEST_P(DeviceConformanceTest, AlignsAndCountsAllocations) {
  const std::uint64_t before = device_->allocation_count();
  {
    const Memory memory(*device_, 1, false);
    const Memory host(*device_, 1, true);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % kArenaAlignment, 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host.data()) % 4096, 0);
  }
  EXPECT_EQ(device_->allocation_count(), before + 2);
}

TEST_P(DeviceConformanceTest, RefusesMoreMemoryThanItHasAndGoesOn) {
  const std::uint64_t total = device_->memory_info().total_bytes;
  EXPECT_THAT([&] { device_->allocate(total + kSlabGranule); }, ThrowsMessage<DeviceMemoryLimit>(HasSubstr("iB")));
  const Stream stream = device_->create_stream("compute");
  const Memory memory(*device_, kBytes, false);
  device_->fill(memory.data(), 1, kBytes, stream);
  device_->synchronize(stream);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceConformanceTest, testing::ValuesIn(test::devices_under_test()),
                         [](const auto& device) { return device.param.name; });

}  // namespace
}  // namespace penstock::gpu
