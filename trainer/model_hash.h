// One number for everything that training changes.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/trainer/model_layout.h>

namespace penstock::trainer {

/// XXH3 of weights, momenta and statistics in `state`, `layout.state_bytes` bytes.
std::uint64_t model_hash(const ModelLayout& layout, const std::byte* state);

}  // namespace penstock::trainer
