// Which back end runs on a device.
#include <penstock/trainer/backend.h>

#include <penstock/trainer/cuda_backend.h>
#include <penstock/trainer/host_backend.h>

namespace penstock::trainer {

std::unique_ptr<Backend> make_backend(const gpu::Device& device, const Runtime& runtime) {
  // A simulated device has host memory: what runs on it is the host's.
  return device.kind() == gpu::DeviceKind::kCuda ? make_cuda_backend() : make_host_backend(runtime);
}

}  // namespace penstock::trainer
