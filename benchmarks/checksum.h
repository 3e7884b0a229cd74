// Reads every byte of a batch, so that nothing lazy can win.
#pragma once

#include <cstdint>
#include <cstring>

#include <penstock/pipeline/batch.h>

namespace penstock::bench {

/// Wrapping sum of the block's 64-bit words: cheap beside any pipeline, and no byte goes unread.
inline std::uint64_t checksum(const Batch& batch) {
  std::uint64_t sum = 0;
  const std::size_t bytes = batch.layout().size_bytes;
  const std::byte* const data = batch.data();
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    sum += word;
  }
  for (; at < bytes; ++at) sum += static_cast<std::uint64_t>(data[at]);
  return sum;
}

}  // namespace penstock::bench
