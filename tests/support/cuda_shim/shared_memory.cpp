// Shared arrays between red zones.
#include "shared_memory.h"

#include <cstring>
#include <stdexcept>

#include <sanitizer/asan_interface.h>

namespace cuda_shim {
namespace {

constexpr std::size_t kLimitBytes = std::size_t{48}
                                    << 10;  // static shared memory of a block, compute capability 7.5 on
constexpr std::size_t kZoneBytes = 256;
constexpr std::size_t kMaxArrays = 16;
constexpr std::size_t kMemoryBytes = kLimitBytes + (kMaxArrays + 1) * (kZoneBytes + 16);

std::byte zone_byte(std::size_t offset) {
  constexpr unsigned char kNan[4] = {0xEF, 0xBE, 0xA0, 0x7F};  // a NaN of its own, 0x7FA0BEEF
  return std::byte{kNan[offset % 4]};
}

}  // namespace

SharedMemory::~SharedMemory() { unpoison(); }

void SharedMemory::unpoison() noexcept {
  if (memory_) ASAN_UNPOISON_MEMORY_REGION(memory_.get(), kMemoryBytes);
}

std::byte* SharedMemory::array(std::size_t bytes, const std::source_location& where) {
  for (const Array& array : arrays_) {
    if (array.where.line() == where.line() && array.where.column() == where.column() &&
        std::strcmp(array.where.file_name(), where.file_name()) == 0) {
      return memory_.get() + array.offset;
    }
  }
  if (!memory_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(kMemoryBytes);
    for (std::size_t i = 0; i < kMemoryBytes; ++i) memory_[i] = zone_byte(i);
    ASAN_POISON_MEMORY_REGION(memory_.get(), kMemoryBytes);
  }
  bytes_in_arrays_ += bytes;
  if (bytes_in_arrays_ > kLimitBytes || arrays_.size() == kMaxArrays) {
    throw std::logic_error("cuda shim: a block's shared arrays need " + std::to_string(bytes_in_arrays_) +
                           " bytes; the limit is " + std::to_string(kLimitBytes));
  }
  const std::size_t offset = (end_ + kZoneBytes + 15) / 16 * 16;
  end_ = offset + bytes;
  arrays_.push_back({where, offset, bytes});
  ASAN_UNPOISON_MEMORY_REGION(memory_.get() + offset, bytes);
  std::memset(memory_.get() + offset, 0xFF, bytes);  // NaN in every floating-point type
  return memory_.get() + offset;
}

void SharedMemory::check(const std::string& owner) {
  if (!memory_) return;
  unpoison();
  std::size_t offset = 0;
  const auto check_until = [&](std::size_t end) {
    for (; offset < end; ++offset) {
      if (memory_[offset] != zone_byte(offset)) {
        throw std::logic_error("cuda shim: " + owner + ": shared memory was written outside its arrays, at byte " +
                               std::to_string(offset));
      }
    }
  };
  for (const Array& array : arrays_) {
    check_until(array.offset);
    offset = array.offset + array.bytes;
  }
  check_until(kMemoryBytes);
}

}  // namespace cuda_shim
