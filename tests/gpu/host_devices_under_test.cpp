#include "gpu/devices_under_test.h"
#include "support/lazy_device.h"

namespace penstock::test {

std::vector<DeviceUnderTest> devices_under_test() {
  return {{"Host",
           [](std::uint64_t total_bytes, std::string&) { return gpu::make_host_device(small_runtime(), total_bytes); }},
          {"Lazy", [](std::uint64_t total_bytes, std::string&) -> std::shared_ptr<gpu::Device> {
             return std::make_shared<LazyDevice>(small_runtime(), total_bytes);
           }}};
}

}  // namespace penstock::test
