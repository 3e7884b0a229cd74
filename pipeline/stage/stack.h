// Samples stacked along a new leading dimension: windows and batches that are elements themselves. Each field becomes
// one block of memory, 64-byte aligned, with dense rows.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/plan.h>

namespace penstock::stage {

/// Members of an element to be, in order; none of them an error.
using Rows = std::span<const engine::Element* const>;

/// How the rows of one field are brought to one shape.
struct RowShape {
  Shape shape;  ///< unknown dimensions: those of the largest row
  /// Smaller rows are filled up with this element; nothing: all rows must have the same shape.
  std::optional<std::array<std::byte, 8>> padding = {};
};

/// Stacks rows that all have the same fields. Used by one thread at a time.
class Stacker {
 public:
  /// `kind` is the stage's constant for `joined_lineage`. `shapes`: one a field; empty: rows as they are.
  Stacker(engine::StreamContext& context, std::string stage, std::uint64_t kind, std::vector<RowShape> shapes = {});
  /// One element with the leading dimension `capacity` (at least the number of rows; what is over is zero), and
  /// `row_origins` of the rows. Nothing: there is no room now. Throws InvalidArgument when shapes differ and may not,
  /// and DataError(kTooLarge).
  std::optional<engine::Element> stack(Rows rows, std::size_t capacity);
  const std::string& stage() const noexcept { return stage_; }
  std::uint64_t kind() const noexcept { return kind_; }

 private:
  Shape common_shape(Rows rows, std::size_t field) const;
  Tensor stacked(Rows rows, std::size_t field, const Shape& row_shape, std::size_t capacity) const;

  const std::string stage_;
  const std::uint64_t kind_;
  const std::vector<RowShape> shapes_;
  engine::Producing producing_;
  engine::StageCounter& counter_;
};

/// Lineage and origins of an element made from `rows`; no sample yet.
engine::Element joined(std::uint64_t kind, Rows rows);
/// What stands in the place of `of` after `stage` failed on it: an error, or, where errors are skipped, that.
engine::Element failed_or_skipped(const engine::StreamContext& context, engine::Element of, const std::string& stage,
                                  std::exception_ptr error);
/// The fields of `row` with one more leading dimension. Throws InvalidArgument when there are too many.
Schema stacked_schema(const std::string& stage, const Schema& row, std::int64_t leading);
/// Batches that `elements` samples make.
std::optional<std::uint64_t> batch_count(std::optional<std::uint64_t> elements, std::size_t size, LastBatch last);
/// Throws InvalidArgument unless batches of `size` come out even: LastBatch::kRefuse.
void require_whole_batches(const std::string& stage, std::optional<std::uint64_t> elements, std::size_t size);
/// `, drop`: what `describe` says of it; nothing for kKeep.
std::string last_text(LastBatch last);
/// `size` where every batch has that many rows, else unknown.
std::int64_t leading_dimension(std::size_t size, LastBatch last) noexcept;

}  // namespace penstock::stage
