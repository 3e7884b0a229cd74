// The last error is cleared before anything is thrown: nobody else would do it.
#include <string>
#include <string_view>

#include <penstock/gpu/cuda_check.h>
#include <penstock/gpu/memory_accounts.h>

namespace penstock::gpu {

void cuda_check(cudaError_t status, const char* what, const std::source_location& place) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const std::string_view file = place.file_name();
  const std::string text = std::string("cuda: ") + what + ": " + cudaGetErrorString(status) + " (" +
                           std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(place.line()) + ")";
  if (status == cudaErrorMemoryAllocation) throw DeviceMemoryLimit(text, "device", what, 0, 0, kNoCap);
  throw DeviceError(text);
}

}  // namespace penstock::gpu
