// Runs every operation of a back end on given inputs and returns all that was written, to compare whole runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Outputs by name, as bytes. Inputs depend on `seed` alone; shapes are large enough to be cut into several tiles,
/// lanes and chunks. With `in_place`, outputs lie on inputs where the contract allows it.
std::map<std::string, std::vector<char>> every_operation(Backend& backend, std::uint32_t seed, bool in_place);

}  // namespace penstock::trainer
