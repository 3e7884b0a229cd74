// What PaddedBatch says, worked out for the fields there are.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/stage/stack.h>
#include <penstock/pipeline/stage_options.h>

namespace penstock::stage {

/// Shape and padding of each field, for `Stacker`. Throws InvalidArgument that begins with the stage's name.
std::vector<RowShape> padded_rows(const std::string& stage, const Schema& rows, const PaddedBatch& options);
/// The fields with the shapes of padded rows.
Schema padded_schema(const Schema& rows, const std::vector<RowShape>& shapes);
/// Throws InvalidArgument when a field is larger than what it is padded to.
void require_room(const Schema& rows, const std::vector<RowShape>& shapes, const Sample& sample);
/// One element of `type` with the value. Throws InvalidArgument (the reason only) when the type cannot hold it.
std::array<std::byte, 8> element_of(DataType type, double value);

}  // namespace penstock::stage
