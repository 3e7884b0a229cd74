// How the failure of an operation is told: the error names the device, the operation and its stream, and keeps the
// original nested inside.
#pragma once

#include <string>

namespace penstock::gpu {

/// Only inside a catch block: throws a DeviceError with the exception in flight nested (std::rethrow_if_nested).
/// `what()`: `host: operation "gemm" on stream "compute": <the original text>`.
[[noreturn]] void throw_work_error(const std::string& device, const std::string& work, const std::string& stream);

}  // namespace penstock::gpu
