// Errors of the operating system as people look them up.
#pragma once

#include <string>
#include <system_error>

namespace penstock::io {

/// `ENOENT: No such file or directory`.
std::string error_text(std::error_code error);
/// The same for a value of errno.
std::string error_text(int errno_value);

}  // namespace penstock::io
