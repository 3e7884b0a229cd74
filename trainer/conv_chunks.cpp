// Lanes are cut first, so that results do not depend on how many run at a time; chunks only bound a lane's buffer.
#include <penstock/trainer/conv_chunks.h>

#include <algorithm>

#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer {

namespace {

// A lane's column buffer stays in a core's second-level cache between im2col and gemm.
constexpr std::int64_t kLaneElements = 128 * 1024;
// What lanes may hold together when a single unit, or a weight gradient, is larger than that.
constexpr std::int64_t kAllLanesElements = 8 * 1024 * 1024;

ConvChunks cut(std::int64_t units, std::int64_t unit_elements, std::int64_t most_lanes, std::int64_t launch_lanes) {
  ConvChunks chunks;
  if (units < 1) return chunks;
  const std::int64_t lanes = std::min(most_lanes, units);
  const std::int64_t per_lane = operations::ceil_div(units, lanes);
  const std::int64_t per_chunk = std::clamp<std::int64_t>(kLaneElements / unit_elements, 1, per_lane);
  chunks.lanes = operations::ceil_div(units, per_lane);
  chunks.units_per_lane = per_lane;
  chunks.units_per_chunk = per_chunk;
  if (launch_lanes == 1) {
    chunks.units_per_lane = units;
    chunks.units_per_chunk = std::min(units, per_chunk * chunks.lanes);
    chunks.lanes = 1;
  }
  chunks.lane_elements = chunks.units_per_chunk * unit_elements;
  return chunks;
}

std::int64_t lanes_that_hold(std::int64_t elements_each) {
  return std::clamp<std::int64_t>(kAllLanesElements / elements_each, 1, kMostLanes);
}

std::int64_t line_elements(const ConvShape& shape) { return shape.out_w() * patch_elements(shape); }

std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }

}  // namespace

std::int64_t patch_elements(const ConvShape& shape) noexcept { return shape.r * shape.s * shape.c; }
std::int64_t weight_elements(const ConvShape& shape) noexcept { return shape.k * patch_elements(shape); }
bool is_matrix_product(const ConvShape& shape) noexcept {
  return shape.r == 1 && shape.s == 1 && shape.stride == 1 && shape.pad == 0;
}

ConvChunks forward_chunks(const ConvShape& shape, std::int64_t launch_lanes) noexcept {
  return cut(shape.n * shape.out_h(), line_elements(shape), lanes_that_hold(line_elements(shape)), launch_lanes);
}

ConvChunks backward_data_chunks(const ConvShape& shape, std::int64_t launch_lanes) noexcept {
  const std::int64_t image_elements = shape.out_h() * line_elements(shape);
  return cut(shape.n, image_elements, lanes_that_hold(image_elements), launch_lanes);
}

ConvChunks backward_weight_chunks(const ConvShape& shape, std::int64_t launch_lanes) noexcept {
  const std::int64_t lanes = lanes_that_hold(std::max(line_elements(shape), weight_elements(shape)));
  return cut(shape.n * shape.out_h(), line_elements(shape), lanes, launch_lanes);
}

std::size_t forward_scratch_bytes(const ConvShape& shape) noexcept {
  if (is_matrix_product(shape)) return 0;
  const ConvChunks chunks = forward_chunks(shape, kMostLanes);
  return bytes(chunks.lanes * chunks.lane_elements);
}

std::size_t backward_data_scratch_bytes(const ConvShape& shape) noexcept {
  if (is_matrix_product(shape)) return 0;
  const ConvChunks chunks = backward_data_chunks(shape, kMostLanes);
  return bytes(chunks.lanes * chunks.lane_elements);
}

std::size_t backward_weight_scratch_bytes(const ConvShape& shape) noexcept {
  const ConvChunks chunks = backward_weight_chunks(shape, kMostLanes);
  const std::int64_t columns = is_matrix_product(shape) ? 0 : chunks.lanes * chunks.lane_elements;
  return bytes(columns + chunks.lanes * weight_elements(shape));
}

}  // namespace penstock::trainer
