#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/preflight.h>

#include "gpu/devices_under_test.h"
#include "support/lazy_device.h"

namespace penstock::gpu {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kTotalBytes = 256 * kMiB;

JobNeed small_job() {
  JobNeed job;
  job.fixed = {{"device/model", 3 * kMiB}, {"host/pinned/staging", 5000}};
  for (const char* name : {"train", "val"}) {
    PhaseNeed phase;
    phase.name = name;
    phase.batch = 8;
    phase.bytes = [](std::size_t batch) { return PhaseBytes{batch * kMiB, batch * 100000}; };
    job.phases.push_back(phase);
  }
  job.phases[1].depth = 3;
  return job;
}

class PreflightTest : public testing::Test {
 protected:
  std::uint64_t bytes_in_use() const { return device_->memory_info().total_bytes - device_->memory_info().free_bytes; }
  std::uint64_t peak_of(const std::string& path) const {
    for (const AccountFigures& row : accounts_.figures()) {
      if (row.path == path) return row.peak_bytes;
    }
    ADD_FAILURE() << "no row " << path;
    return 0;
  }
  std::shared_ptr<Device> device_ = make_host_device(test::small_runtime(), kTotalBytes);
  MemoryAccounts accounts_;
};

TEST_F(PreflightTest, TakesWhatThePlanSays) {
  const JobNeed job = small_job();
  const JobMemory memory = take_memory(device_, accounts_, job);
  EXPECT_EQ(memory.fixed.at("device/model").size_bytes(), 4 * kMiB);
  EXPECT_EQ(memory.fixed_pinned.at("host/pinned/staging").size_bytes(), 8192);
  EXPECT_EQ(memory.step_arena.size_bytes(), 8 * kMiB);
  const FeedMemory& val = memory.feeds.at("val");
  EXPECT_EQ(val.slot_bytes, 800000);  // a multiple of 256
  EXPECT_EQ(val.depth, 3);
  EXPECT_EQ(val.slots.size_bytes(), 4 * kMiB);
  EXPECT_EQ(val.buffers.size(), 3);
  EXPECT_GE(val.buffers[2].size_bytes(), val.slot_bytes);
  EXPECT_EQ(bytes_in_use(), memory.plan.states[0].peak_bytes);
  for (const PlannedAccount& row : memory.plan.accounts) {
    if (row.path == "train" || row.path == "val") continue;  // leases come with the dry run
    EXPECT_EQ(peak_of(row.path), row.planned_peak_bytes) << row.path;
  }
}

TEST_F(PreflightTest, GivesAllBack) {
  {
    JobMemory memory = take_memory(device_, accounts_, small_job());
    const JobMemory moved = std::move(memory);
    EXPECT_EQ(bytes_in_use(), moved.plan.states[0].peak_bytes);
  }
  EXPECT_EQ(bytes_in_use(), 0);
  for (const AccountFigures& row : accounts_.figures()) EXPECT_EQ(row.current_bytes, 0) << row.path;
}

TEST_F(PreflightTest, MeasuredPeaksEqualPlannedOnes) {
  JobNeed job = small_job();
  std::vector<std::string> ran;
  for (PhaseNeed& phase : job.phases) {
    phase.dry_run = [&, name = phase.name] {
      ran.push_back(name);
      EXPECT_EQ(accounts_.phase(name).figures().current_bytes,
                accounts_.account("device/" + name + "/ring").figures().current_bytes + 8 * kMiB);
    };
  }
  JobMemory memory = take_memory(device_, accounts_, job);
  prove_plan(*device_, accounts_, job, memory);
  EXPECT_THAT(ran, ElementsAre("train", "val"));
  for (const PlannedAccount& row : memory.plan.accounts) {
    EXPECT_GT(row.planned_peak_bytes, 0);
    EXPECT_EQ(peak_of(row.path), row.planned_peak_bytes) << row.path;
  }
  EXPECT_EQ(accounts_.phase("train").figures().current_bytes, 2 * kMiB);  // the ring stays, the lease has gone
}

TEST_F(PreflightTest, MemoryIsZeroBeforeAndAfterTheDryRun) {
  JobNeed job = small_job();
  JobMemory* taken = nullptr;
  const auto all_zero = [](const std::byte* data, std::uint64_t bytes) {
    return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
  };
  const auto check = [&](const JobMemory& memory) {
    EXPECT_TRUE(all_zero(memory.step_arena.data(), memory.step_arena.size_bytes()));
    for (const auto& [path, slab] : memory.fixed) EXPECT_TRUE(all_zero(slab.data(), slab.size_bytes()));
    for (const auto& [name, feed] : memory.feeds) EXPECT_TRUE(all_zero(feed.slots.data(), feed.slots.size_bytes()));
  };
  job.phases[0].dry_run = [&] {
    check(*taken);
    const Stream stream = device_->create_stream("compute");
    device_->fill(taken->step_arena.data(), 0xab, taken->step_arena.size_bytes(), stream);
    device_->fill(taken->fixed.at("device/model").data(), 0xab, kMiB, stream);
    device_->fill(taken->feeds.at("val").slots.data(), 0xab, kMiB, stream);
    device_->synchronize(stream);
  };
  device_ = std::make_shared<test::LazyDevice>(test::small_runtime(), kTotalBytes);  // memory begins as 0xff
  JobMemory memory = take_memory(device_, accounts_, job);
  taken = &memory;
  for (const auto& [name, feed] : memory.feeds) {
    for (const PinnedSlab& buffer : feed.buffers) EXPECT_TRUE(all_zero(buffer.data(), buffer.size_bytes()));
  }
  prove_plan(*device_, accounts_, job, memory);
  check(memory);
}

TEST_F(PreflightTest, RunsAtThePlansFigureAndIsRefusedOneByteBelow) {
  JobNeed job = small_job();
  const MemoryPlan plan = plan_memory(job);
  job.phases[0].cap_bytes = plan.accounts[0].planned_peak_bytes;
  job.phases[1].cap_bytes = plan.accounts[1].planned_peak_bytes;
  job.device_cap_bytes = plan.states[0].peak_bytes;
  job.pinned_cap_bytes = plan.states[0].pinned_bytes;
  {
    JobMemory memory = take_memory(device_, accounts_, job);
    prove_plan(*device_, accounts_, job, memory);
  }
  for (std::uint64_t* cap :
       {&job.phases[0].cap_bytes, &job.phases[1].cap_bytes, &job.device_cap_bytes, &job.pinned_cap_bytes}) {
    --*cap;
    const std::uint64_t allocations = device_->allocation_count();
    MemoryAccounts fresh;
    EXPECT_THROW(take_memory(device_, fresh, job), PlanRefused);
    EXPECT_EQ(device_->allocation_count(), allocations);
    EXPECT_TRUE(fresh.figures().empty());
    ++*cap;
  }
}

TEST_F(PreflightTest, TheDevicesMemoryIsACapToo) {
  const JobNeed job = small_job();
  const std::uint64_t peak = plan_memory(job).states[0].peak_bytes;
  device_ = make_host_device(test::small_runtime(), peak);
  {
    JobMemory memory = take_memory(device_, accounts_, job);
  }
  device_ = make_host_device(test::small_runtime(), peak - 1);
  try {
    take_memory(device_, accounts_, job);
    FAIL() << "nothing was thrown";
  } catch (const PlanRefused& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("train batch 8 and val batch 8 need 18.00 MiB, the device has 17.99 MiB"));
    EXPECT_EQ(refused.what(), refused.plan().refusal);
    EXPECT_FALSE(refused.plan().suggestions.empty());
  }
}

TEST_F(PreflightTest, CapsStayInForceAfterwards) {
  JobNeed job = small_job();
  job.phases[0].cap_bytes = plan_memory(job).accounts[0].planned_peak_bytes;
  JobMemory memory = take_memory(device_, accounts_, job);
  const Charge step = accounts_.phase("train").lease(lease_bytes(job.phases[0].bytes(8)), "step");
  EXPECT_THAT([&] { static_cast<void>(accounts_.phase("train").lease(1, "more")); },
              ThrowsMessage<DeviceMemoryLimit>(HasSubstr("train: 1 B for \"more\" do not fit")));
}

TEST_F(PreflightTest, CountsWhatUsersHaveCharged) {
  const Slab mine(device_, accounts_.account("device/external"), 6 * kMiB, "table");
  const Charge also = accounts_.account("device/noise", "train").charge(100, "noise");
  JobNeed job = small_job();
  JobMemory memory = take_memory(device_, accounts_, job);
  EXPECT_EQ(memory.plan.states[0].peak_bytes, 18 * kMiB + 6 * kMiB + 100);
  prove_plan(*device_, accounts_, job, memory);
  EXPECT_EQ(peak_of("device"), 24 * kMiB + 100);
  EXPECT_EQ(peak_of("train"), memory.plan.accounts[0].planned_peak_bytes);
}

TEST_F(PreflightTest, ADryRunThatTakesMemoryIsFoundOut) {
  JobNeed job = small_job();
  Slab secret;
  job.phases[1].dry_run = [&] { secret = Slab(device_, accounts_.account("device/workspace"), 1, "workspace"); };
  JobMemory memory = take_memory(device_, accounts_, job);
  EXPECT_THAT(
      [&] { prove_plan(*device_, accounts_, job, memory); },
      ThrowsMessage<DeviceError>(
          AllOf(HasSubstr("preflight: the memory plan is not true: device: planned 18874368 bytes, measured 20971520"),
                HasSubstr("the dry run asked the device for memory 1 time"), HasSubstr("device/workspace"),
                HasSubstr("val->train"))));
}

TEST_F(PreflightTest, ALeaseInTheWayIsFoundOut) {
  JobNeed job = small_job();
  JobMemory memory = take_memory(device_, accounts_, job);
  const Charge extra = accounts_.phase("val").lease(256, "metrics");
  EXPECT_THAT([&] { prove_plan(*device_, accounts_, job, memory); },
              ThrowsMessage<DeviceError>(HasSubstr("val: planned 12582912 bytes, measured 12583168")));
}

TEST_F(PreflightTest, WhatADryRunThrowsComesOutAndNothingStaysLeased) {
  JobNeed job = small_job();
  job.phases[0].dry_run = [] { throw std::runtime_error("kernel missing"); };
  JobMemory memory = take_memory(device_, accounts_, job);
  EXPECT_THAT([&] { prove_plan(*device_, accounts_, job, memory); },
              ThrowsMessage<std::runtime_error>("kernel missing"));
  EXPECT_EQ(accounts_.phase("train").figures().current_bytes, 2 * kMiB);
}

TEST_F(PreflightTest, GivesAllBackWhenTheDeviceRefusesHalfway) {
  // A device that promises more than it gives.
  class Liar final : public Device {
   public:
    explicit Liar(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}
    DeviceKind kind() const override { return inner_->kind(); }
    std::string name() const override { return inner_->name(); }
    Stream create_stream(const std::string& name, bool high) override { return inner_->create_stream(name, high); }
    Event create_event() override { return inner_->create_event(); }
    void record(Event event, Stream stream) override { inner_->record(event, stream); }
    void wait(Stream stream, Event event) override { inner_->wait(stream, event); }
    void synchronize(Event event) override { inner_->synchronize(event); }
    void synchronize(Stream stream) override { inner_->synchronize(stream); }
    bool query(Event event) override { return inner_->query(event); }
    void enqueue(Stream stream, Work work) override { inner_->enqueue(stream, std::move(work)); }
    void copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) override {
      inner_->copy_to_device(to, from, bytes, stream);
    }
    void copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) override {
      inner_->copy_to_host(to, from, bytes, stream);
    }
    void fill(void* to, std::uint8_t value, std::size_t bytes, Stream stream) override {
      inner_->fill(to, value, bytes, stream);
    }
    void* allocate(std::uint64_t bytes) override { return inner_->allocate(bytes); }
    void free(void* memory) noexcept override { inner_->free(memory); }
    void* allocate_pinned(std::uint64_t bytes) override { return inner_->allocate_pinned(bytes); }
    void free_pinned(void* memory) noexcept override { inner_->free_pinned(memory); }
    MemoryInfo memory_info() const override { return {kTotalBytes, kTotalBytes}; }
    NativeStream native(Stream stream) const override { return inner_->native(stream); }
    std::uint64_t allocation_count() const override { return inner_->allocation_count(); }

   private:
    std::shared_ptr<Device> inner_;
  };
  const std::uint64_t peak = plan_memory(small_job()).states[0].peak_bytes;
  for (std::uint64_t short_of = kMiB; short_of < peak; short_of += 2 * kMiB) {
    const std::shared_ptr<Device> inner = make_host_device(test::small_runtime(), peak - short_of);
    MemoryAccounts accounts;
    EXPECT_THROW(take_memory(std::make_shared<Liar>(inner), accounts, small_job()), DeviceMemoryLimit);
    EXPECT_EQ(inner->memory_info().free_bytes, peak - short_of);
    for (const AccountFigures& row : accounts.figures()) EXPECT_EQ(row.current_bytes, 0) << row.path;
  }
}

}  // namespace
}  // namespace penstock::gpu
