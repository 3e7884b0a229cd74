// Sizes in messages that compare them: a need is rounded up and a limit down, so that a need above its limit never
// reads as equal to it, and a limit that is proposed is enough when it is typed in.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::gpu {

/// As format_size, rounded up.
std::string format_size_up(std::uint64_t bytes);
/// As format_size, rounded down.
std::string format_size_down(std::uint64_t bytes);

}  // namespace penstock::gpu
