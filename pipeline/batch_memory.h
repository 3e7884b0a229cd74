// Where batches are written: the layout of a batch in one block of memory, and who lends such blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/pipeline/sample.h>

namespace penstock {

/// One field of a batch: row `i` lies at `offset + i * row_stride` of the block, `row_bytes` long, dense row-major.
struct BatchField {
  Field field;
  std::size_t offset = 0;
  std::size_t row_bytes = 0;
  std::size_t row_stride = 0;  ///< equal to row_bytes: rows of a batch are dense, as devices want them
  friend bool operator==(const BatchField&, const BatchField&) = default;
};

/// The fields of a batch of `batch_size` rows in one block of `size_bytes`; each field begins 64-byte aligned.
struct BatchLayout {
  std::vector<BatchField> fields;
  std::size_t batch_size = 0;
  std::size_t size_bytes = 0;
  friend bool operator==(const BatchLayout&, const BatchLayout&) = default;

  /// Layout for `schema`, all of whose shapes must be known. Throws InvalidArgument that names the field otherwise.
  static BatchLayout of(const Schema& schema, std::size_t batch_size);
  /// Position of a field. Throws InvalidArgument that lists the names there are.
  std::size_t index_of(std::string_view name) const;
};

/// A block of memory on loan; gives it back when it goes out of scope. Moved-from is empty.
class BatchLease {
 public:
  BatchLease() = default;
  /// `give_back` is called once, on any thread, and may not throw.
  BatchLease(std::byte* data, std::size_t size_bytes, std::function<void()> give_back)
      : data_(data), size_bytes_(size_bytes), give_back_(std::move(give_back)) {}
  BatchLease(BatchLease&& other) noexcept { swap(other); }
  BatchLease& operator=(BatchLease&& other) noexcept {
    BatchLease(std::move(other)).swap(*this);
    return *this;
  }
  ~BatchLease() {
    if (give_back_) give_back_();
  }
  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  void swap(BatchLease& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    give_back_.swap(other.give_back_);
  }
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  std::function<void()> give_back_;
};

/// Lends the memory that batches are written into. Implemented by the loader's recycled pool and by gpu's ring of
/// pinned buffers. Safe for concurrent use.
class BatchMemory {
 public:
  virtual ~BatchMemory() = default;
  /// Memory for batch number `batch_index` (counted over epochs), at least `layout.size_bytes`, 64-byte aligned; or
  /// nothing when all is lent out. Asked in batch order. Never blocks, never allocates on the hot path.
  virtual std::optional<BatchLease> try_acquire(const BatchLayout& layout, std::uint64_t batch_index) = 0;
  /// `callback` is called (never from inside try_acquire) whenever a lease has come back and it is worth asking again.
  /// It may be called on any thread and does not block. One callback; an empty one ends the calls: after on_free({})
  /// has returned, none is running.
  virtual void on_free(std::function<void()> callback) = 0;
  /// How many blocks it can lend at once; the loader keeps at most this many batches open.
  virtual std::size_t capacity() const = 0;
};

}  // namespace penstock
