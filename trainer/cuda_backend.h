// The back end for CUDA devices.
#pragma once

#include <memory>

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Operations are kernels and cuBLASLt products on the native stream of the Work they are called in, which must be one
/// of the device that is current. Nothing is allocated, and no call waits. Throws gpu::DeviceError when a launch is
/// refused; InvalidArgument in a build without CUDA (cuda_backend_absent.cpp).
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace penstock::trainer
