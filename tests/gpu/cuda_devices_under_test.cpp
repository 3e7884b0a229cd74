#include <penstock/gpu/cuda_device.h>

#include "gpu/devices_under_test.h"

namespace penstock::test {

std::vector<DeviceUnderTest> devices_under_test() {
  return {{"Cuda", [](std::uint64_t, std::string& why_not) -> std::shared_ptr<gpu::Device> {
             const gpu::CudaPresence cuda = gpu::find_cuda();
             why_not = cuda.reason;
             return cuda.device_count == 0 ? nullptr : gpu::make_cuda_device(0);
           }}};
}

}  // namespace penstock::test
