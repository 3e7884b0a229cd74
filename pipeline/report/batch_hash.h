// One number for a whole stream of batches, to tell whether two runs delivered the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/pipeline/batch.h>

namespace penstock {

/// XXH3, 64 bits, over every byte of every batch in order: batch by batch, field by field in the layout's order, the
/// valid rows. Used by one thread at a time.
class BatchHash {
 public:
  BatchHash();
  ~BatchHash();
  BatchHash(BatchHash&&) noexcept;
  BatchHash& operator=(BatchHash&&) noexcept;

  void add(const Batch& batch);
  std::uint64_t value() const;
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same hash of `bytes` bytes at `data`.
std::uint64_t hash_bytes(const void* data, std::size_t bytes);
/// `hash` as 16 hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace penstock
