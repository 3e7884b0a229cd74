// How a convolution is cut: into lanes that may run at the same time, each with a column buffer of its own that is
// filled and used chunk by chunk. Arithmetic on the shape alone, so results and scratch are the same for any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Units are output lines (forward, weight gradient) or images (data gradient).
struct ConvChunks {
  std::int64_t lanes = 1;           ///< lanes that have work
  std::int64_t units_per_lane = 0;  ///< contiguous; the last lane may have fewer
  std::int64_t units_per_chunk = 0;
  std::int64_t lane_elements = 0;  ///< floats of one lane's column buffer
};

/// R * S * C: the columns of one output pixel.
std::int64_t patch_elements(const ConvShape& shape) noexcept;
/// K * R * S * C.
std::int64_t weight_elements(const ConvShape& shape) noexcept;
/// A 1x1 convolution without stride or padding: its input already is the column matrix.
bool is_matrix_product(const ConvShape& shape) noexcept;

/// Cuts for a launcher that runs `launch_lanes` lanes (1 to kMostLanes) at a time. All launchers get the same scratch:
/// with one lane its chunks are as large as those of all lanes together.
inline constexpr std::int64_t kMostLanes = 8;
ConvChunks forward_chunks(const ConvShape& shape, std::int64_t launch_lanes) noexcept;
ConvChunks backward_data_chunks(const ConvShape& shape, std::int64_t launch_lanes) noexcept;
ConvChunks backward_weight_chunks(const ConvShape& shape, std::int64_t launch_lanes) noexcept;

/// Scratch bytes of the three passes.
std::size_t forward_scratch_bytes(const ConvShape& shape) noexcept;
std::size_t backward_data_scratch_bytes(const ConvShape& shape) noexcept;
std::size_t backward_weight_scratch_bytes(const ConvShape& shape) noexcept;

}  // namespace penstock::trainer
