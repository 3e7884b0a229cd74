// What a Batch refers to: a block of memory on loan with the origins of its rows, and which rows of it this batch is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/batch_memory.h>
#include <penstock/pipeline/order/order.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

/// A block on loan; the batches that are cut from it (more than one only around failed samples) share it.
struct LentBlock {
  BatchLease lease;
  std::vector<Origin> origins;  ///< one a row of the whole block; empty when `order` tells them
  std::shared_ptr<const order::Order> order;
  std::uint64_t epoch = 0;  ///< of the slots in `order`
  std::uint64_t slot = 0;   ///< of the block's row 0
  std::shared_ptr<const BatchLayout> layout;
  std::shared_ptr<const Source> source;  ///< of a plan with one source that is read by index
  /// Of a stream: its sources, as origins number them; null where there is but `source`.
  std::shared_ptr<const std::vector<std::shared_ptr<const Source>>> sources;
  /// For each row, where some row was not made from exactly one sample; else empty.
  std::vector<std::vector<Origin>> row_origins;
  std::shared_ptr<const void> count;  ///< its uses count the loader's blocks on loan; it goes before the lease does
};

}  // namespace penstock::engine

namespace penstock {

/// Immutable once a Batch has it.
struct Batch::State {
  std::shared_ptr<const engine::LentBlock> block;
  std::size_t first_row = 0;
  std::size_t row_count = 0;
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  Position position;
};

}  // namespace penstock
