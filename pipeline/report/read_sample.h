// One sample read from its source outside of any loader, by the thread that asks.
#pragma once

#include <cstdint>

#include <penstock/pipeline/sample.h>
#include <penstock/pipeline/source.h>

namespace penstock::report {

/// Reads sample `index` of `source` and waits for it; files are read on the calling thread. What the source borrowed is
/// copied. Throws what the source failed with. Blocks.
Sample read_sample_here(const Source& source, std::uint64_t index);

}  // namespace penstock::report
