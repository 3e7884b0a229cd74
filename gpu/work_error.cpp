// The text of the original is repeated, since few callers look at nested exceptions.
#include <exception>

#include <penstock/gpu/device_error.h>
#include <penstock/gpu/work_error.h>

namespace penstock::gpu {
namespace {

std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception was thrown";
  }
}

}  // namespace

void throw_work_error(const std::string& device, const std::string& work, const std::string& stream) {
  std::throw_with_nested(DeviceError(device + ": operation \"" + work + "\" on stream \"" + stream +
                                     "\": " + text_of_current_exception()));
}

}  // namespace penstock::gpu
