// Memory for the values of one row at a time, kept and reused from row to row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/row.h>

namespace penstock::engine {

/// Thrown through a map when the budget has no room now; the row is run again later.
struct NoRoom {};

/// Two buffers a field (the old value stays readable while the new one is written), and scratch that starts again with
/// each map. What a row needs is counted from the row alone, not from what earlier rows left behind, so that kTooLarge
/// does not depend on what ran before. Used by one thread at a time.
class RowBuffers final : public RowMemory {
 public:
  /// Asks the budget for `bytes`; an empty charge means no room now.
  using Charger = std::function<Charge(std::uint64_t bytes)>;
  RowBuffers(Charger charger, std::uint64_t max_sample_bytes)
      : charger_(std::move(charger)), max_sample_bytes_(max_sample_bytes) {}

  /// Begins a row whose source took `read_bytes`. `rows` are the places of the batch's fields for this row, and their
  /// sizes.
  struct Place {
    std::byte* data;
    std::size_t bytes;
  };
  void begin_row(std::uint64_t read_bytes, std::span<const Place> rows);
  /// Begins a map: `destinations[field]` is the place that this map's value goes to for good, or -1.
  void begin_map(std::span<const std::int32_t> destinations);
  /// Ends the row: held tensors are let go.
  void end_row();
  /// True when the budget had no room for this row; `needed_bytes` says how much the row needed up to there.
  bool refused() const noexcept { return refused_; }
  std::uint64_t needed_bytes() const noexcept { return read_bytes_ + value_bytes_ + scratch_most_ + held_bytes_; }
  /// Bytes of values written since the last call or the beginning of the row.
  std::uint64_t take_written_bytes() noexcept { return std::exchange(written_bytes_, 0); }
  /// Gives all memory back. Not within a row.
  void release();

  std::byte* value(std::size_t field, std::size_t bytes) override;
  std::byte* scratch(std::size_t bytes) override;
  void hold(Tensor tensor) override;

 private:
  struct Buffer {
    ChargedMemory owned;
    std::size_t capacity = 0;
    std::uint64_t row_bytes = 0;  // the most that this row has asked of it
  };
  struct FieldBuffers {
    std::array<Buffer, 2> buffers;
    std::uint8_t current = 0;
    bool written = false;  // by this map
  };
  void require(std::uint64_t more_bytes);
  ChargedMemory take(std::size_t bytes);

  Charger charger_;
  const std::uint64_t max_sample_bytes_;
  std::span<const Place> rows_;
  std::span<const std::int32_t> destinations_;
  std::vector<FieldBuffers> fields_;
  std::vector<std::uint32_t> written_;  // fields that this map has written
  std::vector<Buffer> scratch_;
  std::size_t scratch_chunk_ = 0;   // the one in use
  std::size_t scratch_used_ = 0;    // of it
  std::uint64_t scratch_now_ = 0;   // this map
  std::uint64_t scratch_most_ = 0;  // over the maps of this row
  std::uint64_t value_bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::vector<Tensor> held_;
  std::vector<Charge> held_charges_;
  bool refused_ = false;
};

}  // namespace penstock::engine
