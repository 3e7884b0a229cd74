// The tensors of tests/data/operations/operations.bin, and the buffers that operations are tested on.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Name -> values, one map a type.
struct StoredTensors {
  std::map<std::string, std::vector<float>> f32;
  std::map<std::string, std::vector<double>> f64;
  std::map<std::string, std::vector<std::int32_t>> i32;
  std::map<std::string, std::vector<std::uint8_t>> u8;
  /// Cases whose name is `kind` and a number: their shapes by case name.
  std::vector<std::pair<std::string, std::vector<std::int32_t>>> cases(const std::string& kind) const;
};

/// Read once.
const StoredTensors& stored_tensors();

/// The back end of the host with `threads` threads.
std::shared_ptr<Backend> host_backend(std::size_t threads = 2);

/// Scratch of exactly `bytes`, between guard bytes that are checked when it goes.
class GuardedScratch {
 public:
  explicit GuardedScratch(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, std::byte{0xa5}) {
    // What scratch holds before means nothing: as floats and doubles these bytes are not numbers.
    std::memset(data(), 0xff, bytes);
  }
  GuardedScratch(const GuardedScratch&) = delete;
  GuardedScratch& operator=(const GuardedScratch&) = delete;
  ~GuardedScratch() {
    for (std::size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(memory_[i], std::byte{0xa5}) << "scratch written before its start";
      EXPECT_EQ(memory_[kGuard + bytes_ + i], std::byte{0xa5}) << "scratch written behind its " << bytes_ << " bytes";
    }
  }
  std::byte* data() { return memory_.data() + kGuard; }

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

/// Values that nothing may keep: an output that is not written shows.
inline std::vector<float> unwritten(std::size_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

/// Pseudo-random values in [-1, 1], the same everywhere.
std::vector<float> random_values(std::size_t count, std::uint32_t seed);

/// |got - want| <= tolerance * (1 + |want|) for every element, and the sizes are equal.
void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                 const std::string& what);

/// Equal byte for byte.
template <class T>
void expect_same_bytes(const std::vector<T>& got, const std::vector<T>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(T)), 0)
        << what << " differs at " << i << ": " << got[i] << " and " << want[i];
  }
}

}  // namespace penstock::trainer
