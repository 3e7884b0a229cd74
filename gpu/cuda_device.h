// The CUDA device without CUDA's headers: what `open_device` asks of it. A build without CUDA answers here as well, and
// says that it has none (cuda_device_absent.cpp).
#pragma once

#include <memory>
#include <string>

#include <penstock/gpu/device.h>

namespace penstock::gpu {

/// How many CUDA devices there are; when there are none, why.
struct CudaPresence {
  int device_count = 0;
  std::string reason;  ///< `this build has no CUDA`, `CUDA driver version is insufficient for CUDA runtime version`
};
/// Never throws for a machine without a driver.
CudaPresence find_cuda();

/// Device `index` of `find_cuda().device_count`. Throws DeviceError when it cannot be opened.
std::shared_ptr<Device> make_cuda_device(int index);

}  // namespace penstock::gpu
