// Device code on the host, in three orders of blocks and threads.
#include <stdexcept>

#include "support/cuda_shim/cuda_shim.h"
#include "trainer/cuda/host_rig.h"

namespace penstock::trainer::test {
namespace {

class ShimRig : public HostRig {
 public:
  ShimRig(std::string name, cuda_shim::Order order) : name_(std::move(name)), order_(order) {
    if (cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess) throw std::logic_error("no stream");
  }
  ShimRig(const ShimRig&) = delete;
  ShimRig& operator=(const ShimRig&) = delete;
  ~ShimRig() override { cudaStreamDestroy(stream_); }

  std::string name() const override { return name_; }
  void run(const std::function<void(NativeStream)>& body) override {
    cuda_shim::set_order(order_, 20250711);
    body(stream_);
    const cudaError_t error = cudaStreamSynchronize(stream_);
    cuda_shim::set_order(cuda_shim::Order::kAscending);
    if (error != cudaSuccess) throw std::logic_error(cudaGetErrorString(error));
  }

 private:
  std::string name_;
  cuda_shim::Order order_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::vector<std::unique_ptr<Rig>> make_rigs() {
  std::vector<std::unique_ptr<Rig>> rigs;
  rigs.push_back(std::make_unique<ShimRig>("ascending", cuda_shim::Order::kAscending));
  rigs.push_back(std::make_unique<ShimRig>("descending", cuda_shim::Order::kDescending));
  rigs.push_back(std::make_unique<ShimRig>("seeded", cuda_shim::Order::kSeeded));
  return rigs;
}

std::string why_no_rigs() { return ""; }

}  // namespace penstock::trainer::test
