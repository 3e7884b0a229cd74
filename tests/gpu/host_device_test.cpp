// What the host device adds to the conformance suite: real concurrency, exact limits, failures that stay.
#include <atomic>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/device.h>
#include <penstock/gpu/device_error.h>

#include "gpu/devices_under_test.h"

namespace penstock::gpu {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t kTotalBytes = 4096;

std::shared_ptr<Device> make_device() { return make_host_device(test::small_runtime(), kTotalBytes); }

// Keeps a stream where it is until it is opened (at the latest when it goes).
class Gate {
 public:
  ~Gate() { open(); }
  void close(Device& device, Stream stream) {
    device.enqueue(stream, {"gate", [this](NativeStream) { latch_.wait(); }, {}, {}});
  }
  void open() {
    if (!opened_.exchange(true)) latch_.count_down();
  }

 private:
  std::latch latch_{1};
  std::atomic<bool> opened_{false};
};

Work count_up(std::atomic<int>& count) {
  return {"count", [&count](NativeStream) { ++count; }, {}, {}};
}
Work fail(const std::string& name, const std::string& text) {
  return {name, [text](NativeStream) { throw std::runtime_error(text); }, {}, {}};
}

TEST(HostDeviceTest, RunsStreamsSideBySide) {
  const std::shared_ptr<Device> device = make_device();
  const Stream held = device->create_stream("held");
  const Stream free = device->create_stream("free");
  Gate gate;
  gate.close(*device, held);
  std::atomic<int> count{0};
  device->enqueue(held, count_up(count));
  device->enqueue(free, count_up(count));
  device->synchronize(free);
  EXPECT_EQ(count, 1);
  gate.open();
  device->synchronize(held);
  EXPECT_EQ(count, 2);
}

TEST(HostDeviceTest, QueryDoesNotWait) {
  const std::shared_ptr<Device> device = make_device();
  const Stream stream = device->create_stream("compute");
  const Event event = device->create_event();
  Gate gate;
  gate.close(*device, stream);
  device->record(event, stream);
  EXPECT_FALSE(device->query(event));
  gate.open();
  device->synchronize(event);
  EXPECT_TRUE(device->query(event));
}

TEST(HostDeviceTest, WaitKeepsTheGenerationItWasAskedFor) {
  const std::shared_ptr<Device> device = make_device();
  const Stream first = device->create_stream("first");
  const Stream second = device->create_stream("second");
  const Stream waiter = device->create_stream("waiter");
  const Event event = device->create_event();
  Gate gate;
  device->record(event, first);
  device->wait(waiter, event);
  gate.close(*device, second);
  device->record(event, second);  // a later recording, which does not complete
  device->synchronize(waiter);    // returns: the wait belongs to the earlier one
  EXPECT_FALSE(device->query(event));
}

TEST(HostDeviceTest, WaitHoldsTheStreamUntilTheEvent) {
  const std::shared_ptr<Device> device = make_device();
  const Stream held = device->create_stream("held");
  const Stream waiter = device->create_stream("waiter");
  const Event event = device->create_event();
  const Event after = device->create_event();
  std::atomic<int> count{0};
  std::atomic<int> count_seen{-1};
  Gate gate;
  gate.close(*device, held);
  device->enqueue(held, count_up(count));
  device->record(event, held);
  device->wait(waiter, event);
  device->enqueue(waiter, {"look", [&](NativeStream) { count_seen = count.load(); }, {}, {}});
  device->record(after, waiter);
  EXPECT_FALSE(device->query(after));
  gate.open();
  device->synchronize(after);
  EXPECT_EQ(count_seen, 1);
}

TEST(HostDeviceTest, KeepsTheFirstFailureAndRunsNothingAfterIt) {
  const std::shared_ptr<Device> device = make_device();
  const Stream stream = device->create_stream("compute");
  const Event before = device->create_event();
  const Event after = device->create_event();
  std::atomic<int> count{0};
  Gate gate;
  device->record(before, stream);
  gate.close(*device, stream);
  device->enqueue(stream, fail("gemm", "k is 0"));
  device->enqueue(stream, fail("relu", "never seen"));
  device->enqueue(stream, count_up(count));
  device->record(after, stream);
  gate.open();
  const auto failure = ThrowsMessage<DeviceError>("host: operation \"gemm\" on stream \"compute\": k is 0");
  EXPECT_THAT([&] { device->synchronize(after); }, failure);
  EXPECT_THAT([&] { device->synchronize(stream); }, failure);
  EXPECT_THAT([&] { device->synchronize(stream); }, failure);
  EXPECT_THAT([&] { device->enqueue(stream, count_up(count)); }, failure);
  EXPECT_TRUE(device->query(after));
  EXPECT_NO_THROW(device->synchronize(before));
  EXPECT_EQ(count, 0);
}

TEST(HostDeviceTest, KeepsTheOriginalOfAFailure) {
  const std::shared_ptr<Device> device = make_device();
  const Stream stream = device->create_stream("compute");
  device->enqueue(stream, {"parse", [](NativeStream) { throw std::out_of_range("row 8 of 8"); }, {}, {}});
  try {
    device->synchronize(stream);
    FAIL() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT([&] { std::rethrow_if_nested(error); }, ThrowsMessage<std::out_of_range>("row 8 of 8"));
  }
}

TEST(HostDeviceTest, TellsOfThingsThrownThatAreNoExceptions) {
  const std::shared_ptr<Device> device = make_device();
  const Stream stream = device->create_stream("compute");
  device->enqueue(stream, {"odd", [](NativeStream) { throw 7; }, {}, {}});
  EXPECT_THAT([&] { device->synchronize(stream); }, ThrowsMessage<DeviceError>(HasSubstr("operation \"odd\"")));
}

TEST(HostDeviceTest, CarriesAFailureToWhoeverWaitsForIt) {
  const std::shared_ptr<Device> device = make_device();
  const Stream failing = device->create_stream("copy");
  const Stream waiter = device->create_stream("compute");
  const Stream other = device->create_stream("other");
  const Event event = device->create_event();
  std::atomic<int> count{0};
  device->enqueue(failing, fail("fetch", "gone"));
  device->record(event, failing);
  device->wait(waiter, event);
  EXPECT_THAT([&] { device->synchronize(waiter); },
              ThrowsMessage<DeviceError>("host: operation \"fetch\" on stream \"copy\": gone"));
  device->enqueue(other, count_up(count));
  device->synchronize(other);
  EXPECT_EQ(count, 1);
}

TEST(HostDeviceTest, RefusesMemoryBeyondItsTotalByOneByte) {
  const std::shared_ptr<Device> device = make_device();
  void* all = device->allocate(kTotalBytes);
  EXPECT_EQ(device->memory_info().free_bytes, 0);
  EXPECT_EQ(device->memory_info().total_bytes, kTotalBytes);
  try {
    device->allocate(1);
    FAIL() << "nothing was thrown";
  } catch (const DeviceMemoryLimit& limit) {
    EXPECT_STREQ(limit.what(), "host: 1 B of device memory cannot be had: 4.00 KiB of 4.00 KiB are in use");
    EXPECT_EQ(limit.account(), "device");
    EXPECT_EQ(limit.requested_bytes(), 1);
    EXPECT_EQ(limit.current_bytes(), kTotalBytes);
    EXPECT_EQ(limit.cap_bytes(), kTotalBytes);
  }
  device->free(all);
  EXPECT_EQ(device->memory_info().free_bytes, kTotalBytes);
  device->free(device->allocate(kTotalBytes));
}

TEST(HostDeviceTest, HoldsItsLimitAgainstManyThreads) {
  const std::shared_ptr<Device> device = make_device();
  std::atomic<std::uint64_t> held{0};
  std::atomic<bool> above{false};
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::uint64_t bytes = 256 * static_cast<std::uint64_t>(t + 1);
      for (int i = 0; i < 300; ++i) {
        try {
          void* memory = device->allocate(bytes);
          if (held.fetch_add(bytes) + bytes > kTotalBytes) above = true;
          ++granted;
          held.fetch_sub(bytes);
          device->free(memory);
        } catch (const DeviceMemoryLimit&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(above);
  EXPECT_GT(granted, 0);
  EXPECT_EQ(device->memory_info().free_bytes, kTotalBytes);
}

TEST(HostDeviceTest, RefusesDeviceMemoryThatIsNotItsOwn) {
  const std::shared_ptr<Device> device = make_device();
  const Stream stream = device->create_stream("compute");
  std::vector<unsigned char> elsewhere(16);
  EXPECT_THAT([&] { device->fill(elsewhere.data(), 1, 16, stream); },
              ThrowsMessage<std::logic_error>(HasSubstr("device's side do not lie in memory of this device")));
}

TEST(HostDeviceTest, FinishesWhatIsQueuedWhenItEnds) {
  std::atomic<int> count{0};
  {
    const std::shared_ptr<Device> device = make_device();
    const Stream first = device->create_stream("first");
    const Stream second = device->create_stream("second");
    const Event event = device->create_event();
    for (int i = 0; i < 100; ++i) device->enqueue(second, count_up(count));
    device->record(event, second);
    device->wait(first, event);
    for (int i = 0; i < 100; ++i) device->enqueue(first, count_up(count));
  }
  EXPECT_EQ(count, 200);
}

TEST(OpenDeviceTest, OpensTheHostByNameAndSize) {
  const std::shared_ptr<Device> device = open_device("host", test::small_runtime(), 12345);
  EXPECT_EQ(device->kind(), DeviceKind::kHost);
  EXPECT_EQ(device->name(), "host");
  EXPECT_EQ(device->memory_info().total_bytes, 12345);
  EXPECT_GT(open_device("host", test::small_runtime())->memory_info().total_bytes, std::uint64_t{64} << 20);
}

TEST(OpenDeviceTest, RefusesOtherWords) {
  for (const std::string choice : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda0", "Host"}) {
    EXPECT_THAT([&] { open_device(choice, test::small_runtime()); },
                ThrowsMessage<InvalidArgument>("device \"" + choice + "\": expected auto, host or cuda:N"));
  }
}

}  // namespace
}  // namespace penstock::gpu
