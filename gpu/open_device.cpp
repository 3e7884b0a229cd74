// From the words of a command line to a device.
#include <charconv>
#include <string_view>

#include <unistd.h>

#include <penstock/gpu/cuda_device.h>
#include <penstock/gpu/device.h>
#include <penstock/pipeline/error.h>

namespace penstock::gpu {
namespace {

std::uint64_t half_of_machine_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE)) / 2;
}

int parse_cuda_index(const std::string& choice) {
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (choice == "cuda") return 0;
  if (choice.starts_with(kPrefix)) {
    const char* begin = choice.data() + kPrefix.size();
    const char* end = choice.data() + choice.size();
    const auto [stop, error] = std::from_chars(begin, end, index);
    if (error == std::errc{} && stop == end && index >= 0 && *begin != '-') return index;
  }
  throw InvalidArgument("device \"" + choice + "\": expected auto, host or cuda:N");
}

}  // namespace

std::shared_ptr<Device> open_device(const std::string& choice, const Runtime& runtime, std::uint64_t host_total_bytes) {
  const std::uint64_t host_bytes = host_total_bytes == 0 ? half_of_machine_bytes() : host_total_bytes;
  if (choice == "host") return make_host_device(runtime, host_bytes);
  if (choice == "auto") {
    return find_cuda().device_count > 0 ? make_cuda_device(0) : make_host_device(runtime, host_bytes);
  }
  const int index = parse_cuda_index(choice);
  const CudaPresence cuda = find_cuda();
  if (cuda.device_count == 0) throw InvalidArgument("device \"" + choice + "\": " + cuda.reason);
  if (index >= cuda.device_count) {
    throw InvalidArgument("device \"" + choice + "\": there are " + std::to_string(cuda.device_count) +
                          " CUDA devices, cuda:0 to cuda:" + std::to_string(cuda.device_count - 1));
  }
  return make_cuda_device(index);
}

}  // namespace penstock::gpu
