// Scheduling priority of single threads.
#pragma once

namespace penstock {

/// Adds `nice` (0 to 19) to the nice value of the calling thread; on Linux it belongs to the thread, not to the
/// process. What the system refuses is left as it is: it changes speed only.
void make_nice(int nice) noexcept;

}  // namespace penstock
