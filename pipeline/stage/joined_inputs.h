// What the stages that join pipelines ask of them.
#pragma once

#include <string>
#include <vector>

#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/sample.h>

namespace penstock::stage {

/// Throws InvalidArgument, naming the stage, when there are fewer than `least` inputs, or one is batched.
void require_inputs(const std::string& stage, const std::vector<Pipeline>& inputs, std::size_t least);

/// The fields that all inputs have, in the order of the first; dimensions in which they differ are unknown. Throws
/// InvalidArgument when names, types or the number of dimensions differ.
Schema common_schema(const std::string& stage, const std::vector<Pipeline>& inputs);

/// The fields of `sample` in the order of `schema`, all of whose names it has.
Sample in_order(Sample sample, const Schema& schema);

}  // namespace penstock::stage
