// The answer of a build without CUDA.
#include <penstock/gpu/cuda_device.h>
#include <penstock/gpu/device_error.h>

namespace penstock::gpu {

CudaPresence find_cuda() { return {.device_count = 0, .reason = "this build has no CUDA"}; }

std::shared_ptr<Device> make_cuda_device(int /*index*/) { throw DeviceError("cuda: this build has no CUDA"); }

}  // namespace penstock::gpu
