// printf into a string.
#pragma once

#include <string>

namespace penstock::trainer::command {

/// What std::printf would print.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

}  // namespace penstock::trainer::command
