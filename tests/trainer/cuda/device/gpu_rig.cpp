// Device code on the first GPU, twice: what it computes must not depend on the run.
#include <cstring>

#include <penstock/gpu/cuda_device.h>
#include <penstock/pipeline/runtime.h>

#include "trainer/cuda/rig.h"

namespace penstock::trainer::test {
namespace {

class GpuRig : public Rig {
 public:
  explicit GpuRig(std::string name)
      : name_(std::move(name)), device_(gpu::make_cuda_device(0)), stream_(device_->create_stream("test")) {}
  GpuRig(const GpuRig&) = delete;
  GpuRig& operator=(const GpuRig&) = delete;
  ~GpuRig() override {
    for (void* memory : memory_) device_->free(memory);
  }

  std::string name() const override { return name_; }

  void* upload(const std::vector<std::byte>& bytes) override {
    memory_.push_back(device_->allocate(bytes.size() + 1));  // memory of 0 bytes is memory, too
    if (bytes.empty()) return memory_.back();
    const Staging staging(*device_, bytes.size());
    std::memcpy(staging.memory, bytes.data(), bytes.size());
    device_->copy_to_device(memory_.back(), staging.memory, bytes.size(), stream_);
    device_->synchronize(stream_);
    return memory_.back();
  }

  void run(const std::function<void(NativeStream)>& body) override {
    device_->enqueue(stream_, {.name = "test", .body = body, .reads = {}, .writes = {}});
    device_->synchronize(stream_);
  }

  std::vector<std::byte> download(const void* memory, std::size_t bytes) override {
    std::vector<std::byte> result(bytes);
    if (bytes == 0) return result;
    const Staging staging(*device_, bytes);
    device_->copy_to_host(staging.memory, memory, bytes, stream_);
    device_->synchronize(stream_);
    std::memcpy(result.data(), staging.memory, bytes);
    return result;
  }

  bool has_host_arithmetic() const override { return false; }

 private:
  struct Staging {
    Staging(gpu::Device& device, std::size_t bytes) : owner(device), memory(device.allocate_pinned(bytes)) {}
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging() { owner.free_pinned(memory); }
    gpu::Device& owner;
    void* memory;
  };

  std::string name_;
  std::shared_ptr<gpu::Device> device_;
  gpu::Stream stream_;
  std::vector<void*> memory_;
};

}  // namespace

std::vector<std::unique_ptr<Rig>> make_rigs() {
  std::vector<std::unique_ptr<Rig>> rigs;
  rigs.push_back(std::make_unique<GpuRig>("first run"));
  rigs.push_back(std::make_unique<GpuRig>("second run"));
  return rigs;
}

std::string why_no_rigs() {
  const gpu::CudaPresence cuda = gpu::find_cuda();
  return cuda.device_count > 0 ? "" : "no CUDA device: " + cuda.reason;
}

}  // namespace penstock::trainer::test
