// Which devices a test program runs the conformance suite on: each program links one definition.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <penstock/gpu/device.h>
#include <penstock/pipeline/runtime.h>

namespace penstock::test {

/// A small runtime that all tests of the program share.
inline const Runtime& small_runtime() {
  static const Runtime runtime({.threads = 2, .budget_bytes = std::uint64_t{16} << 20, .io_threads = 1});
  return runtime;
}

struct DeviceUnderTest {
  std::string name;
  /// A device with about `total_bytes` of memory (a real one has what it has); null, with `why_not` set, when the
  /// machine has none.
  std::function<std::shared_ptr<gpu::Device>(std::uint64_t total_bytes, std::string& why_not)> make;
  friend std::ostream& operator<<(std::ostream& out, const DeviceUnderTest& tested) { return out << tested.name; }
};

std::vector<DeviceUnderTest> devices_under_test();

}  // namespace penstock::test
