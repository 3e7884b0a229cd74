// The one way a CUDA status is looked at.
#pragma once

#include <source_location>

#include <cuda_runtime.h>

#include <penstock/gpu/device_error.h>

namespace penstock::gpu {

/// Throws when `status` is a failure; `what()`: `cuda: cudaStreamCreate: out of memory (cuda_device.cpp:41)`. A refusal
/// of memory is a DeviceMemoryLimit, anything else a DeviceError. Clears the runtime's last error, which would
/// otherwise fail a later, innocent call.
void cuda_check(cudaError_t status, const char* what,
                const std::source_location& place = std::source_location::current());

}  // namespace penstock::gpu
