// Memory aligned to 64 bytes with 64 bytes more behind it, and the same with its charge to the budget.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include <penstock/pipeline/engine/budget.h>

namespace penstock::engine {

/// Cache lines, and the widest loads there are.
inline constexpr std::size_t kMemoryAlignment = 64;
/// Wide loads and stores may run over the end by this much.
inline constexpr std::size_t kMemorySlack = 64;

/// `bytes` rounded up to the alignment.
constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

/// Frees what make_aligned made.
struct AlignedDelete {
  void operator()(std::byte* data) const noexcept { ::operator delete(data, std::align_val_t{kMemoryAlignment}); }
};
using AlignedMemory = std::unique_ptr<std::byte, AlignedDelete>;

/// Throws std::bad_alloc.
inline AlignedMemory make_aligned(std::size_t bytes) {
  return AlignedMemory(
      static_cast<std::byte*>(::operator new(bytes + kMemorySlack, std::align_val_t{kMemoryAlignment})));
}

/// Memory and the charge for it; given back together, the memory first.
struct ChargedMemory {
  Charge charge;
  AlignedMemory memory;
};

}  // namespace penstock::engine
