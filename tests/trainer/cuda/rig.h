// Where the device code of a test runs: on a GPU, or on the host through the shim. A test program has one or the other
// linked in, so the same cases run on both.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/gpu/device.h>

namespace penstock::trainer::test {

using gpu::NativeStream;

class Rig {
 public:
  virtual ~Rig() = default;
  virtual std::string name() const = 0;
  /// Device memory of exactly these bytes, which lives as long as the rig.
  virtual void* upload(const std::vector<std::byte>& bytes) = 0;
  /// Calls `body` with a stream, and returns when everything is done that it enqueued.
  virtual void run(const std::function<void(NativeStream)>& body) = 0;
  virtual std::vector<std::byte> download(const void* memory, std::size_t bytes) = 0;
  /// Whether functions like exp give what the host's give, bit for bit.
  virtual bool has_host_arithmetic() const = 0;
};

/// The rigs of this program, made anew: one on a GPU; through the shim one for each order of threads.
std::vector<std::unique_ptr<Rig>> make_rigs();

/// Empty when there are rigs; otherwise why there are none.
std::string why_no_rigs();

/// Plain memory, for the host's back end; the stream is null.
std::unique_ptr<Rig> make_host_rig();

}  // namespace penstock::trainer::test

/// Ends the test when its device is not there: aloud, or as a failure where a GPU is expected.
#define PENSTOCK_NEEDS_RIGS()                                                                       \
  if (const std::string why = ::penstock::trainer::test::why_no_rigs(); !why.empty()) {             \
    if (std::getenv("PENSTOCK_EXPECT_GPU") != nullptr) FAIL() << "a GPU is expected here: " << why; \
    GTEST_SKIP() << why;                                                                            \
  }                                                                                                 \
  static_assert(true)
