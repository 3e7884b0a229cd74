// A block's shared memory: arrays between red zones in one heap block. Arrays start as NaN; a value written outside
// them is found when the block ends, and under AddressSanitizer any access is found at once.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace cuda_shim {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// The array declared at `where`; made at its first call. std::logic_error when all arrays pass 48 KiB.
  std::byte* array(std::size_t bytes, const std::source_location& where);
  /// std::logic_error when something was written outside the arrays; `owner` goes into its text.
  void check(const std::string& owner);

 private:
  struct Array {
    std::source_location where;
    std::size_t offset;
    std::size_t bytes;
  };
  void unpoison() noexcept;

  std::unique_ptr<std::byte[]> memory_;  // made with the first array
  std::vector<Array> arrays_;
  std::size_t end_ = 0;
  std::size_t bytes_in_arrays_ = 0;
};

}  // namespace cuda_shim
