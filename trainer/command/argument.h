// Values as people type them, with errors that name the option.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::trainer::command {

/// A whole number of at least `least`. Throws InvalidArgument that names `option` and what was read.
std::uint64_t parse_count(const std::string& option, const std::string& text, std::uint64_t least);

/// A finite decimal number of at least 0. Throws InvalidArgument likewise.
double parse_rate(const std::string& option, const std::string& text);

/// `64MiB`, `1.5GB`, `200000000`, above 0. Throws InvalidArgument likewise.
std::uint64_t parse_bytes(const std::string& option, const std::string& text);

/// Bytes of a cache of the form `memory:SIZE`. Throws InvalidArgument likewise.
std::uint64_t parse_cache(const std::string& option, const std::string& text);

}  // namespace penstock::trainer::command
