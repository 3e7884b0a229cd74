// One call of an operation, run by the host's back end and by the CUDA back end on every rig, and compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <penstock/trainer/backend.h>

#include "trainer/cuda/rig.h"

namespace penstock::trainer::test {

/// The addresses of a case's buffers on one rig, by number.
class Memory {
 public:
  explicit Memory(std::vector<void*> buffers) : buffers_(std::move(buffers)) {}
  template <class T>
  T* at(std::size_t buffer) const {
    return static_cast<T*>(buffers_[buffer]);
  }

 private:
  std::vector<void*> buffers_;
};

class Case {
 public:
  using Body = std::function<void(Backend&, NativeStream, const Memory&)>;
  enum class Content : std::uint8_t { kFloats, kInts, kBytes, kMetrics, kExact, kScratch };
  struct Buffer {
    std::vector<std::byte> start;
    Content content;
  };

  /// A buffer with these values; returns its number.
  template <class T>
  std::size_t with(const std::vector<T>& values) {
    Buffer buffer{std::vector<std::byte>(values.size() * sizeof(T)), content_of<T>()};
    if (!values.empty()) std::memcpy(buffer.start.data(), values.data(), buffer.start.size());
    buffers.push_back(std::move(buffer));
    return buffers.size() - 1;
  }
  /// A buffer that the operation must write wholly: NaN, or a value that no operation gives.
  template <class T>
  std::size_t output(std::int64_t count) {
    buffers.push_back(
        {std::vector<std::byte>(static_cast<std::size_t>(count) * sizeof(T), std::byte{0xFF}), content_of<T>()});
    if constexpr (std::is_same_v<T, std::int32_t>) {
      for (std::size_t i = 3; i < buffers.back().start.size(); i += 4) buffers.back().start[i] = std::byte{0x7E};
    }
    return buffers.size() - 1;
  }
  /// Bytes of NaN that are not compared.
  std::size_t scratch(std::size_t bytes) {
    buffers.push_back({std::vector<std::byte>(bytes, std::byte{0xFF}), Content::kScratch});
    return buffers.size() - 1;
  }

  std::string name;
  std::vector<Buffer> buffers;
  Body body;
  bool has_product = false;  ///< sums of a matrix product have another order on another device

 private:
  template <class T>
  static constexpr Content content_of() {
    if constexpr (std::is_same_v<T, float>) return Content::kFloats;
    if constexpr (std::is_same_v<T, std::int32_t>) return Content::kInts;
    if constexpr (std::is_same_v<T, std::uint8_t>) return Content::kBytes;
    if constexpr (std::is_same_v<T, MetricSums>) return Content::kMetrics;
    return Content::kExact;
  }
};

/// Fails the test when the host's back end left part of an output unwritten; when a rig's floats are further from the
/// host's than kRelativeError of the buffer's largest magnitude (bit for bit where there is no product and the rig has
/// the host's arithmetic); when anything else differs; and when two rigs differ in one bit.
void expect_agreement(const Case& what);
inline constexpr double kRelativeError = 1e-5;

/// The host's back end, for all tests of the program.
Backend* host_backend();

/// Reproducible values in [-1, 1).
std::vector<float> random_floats(std::int64_t count, std::uint32_t seed);

}  // namespace penstock::trainer::test
