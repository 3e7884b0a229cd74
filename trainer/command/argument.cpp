// Numbers are read whole or not at all: what is left over after a number is a mistake.
#include <penstock/trainer/command/argument.h>

#include <charconv>
#include <cmath>

#include <penstock/gpu/memory_plan.h>
#include <penstock/pipeline/error.h>

namespace penstock::trainer::command {
namespace {

template <class T>
bool parse_whole(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::uint64_t parse_count(const std::string& option, const std::string& text, std::uint64_t least) {
  std::uint64_t value = 0;
  if (!parse_whole(text, value) || value < least) {
    throw InvalidArgument(option + ": a whole number of at least " + std::to_string(least) + " is expected, got '" +
                          text + "'");
  }
  return value;
}

double parse_rate(const std::string& option, const std::string& text) {
  double value = 0;
  if (!parse_whole(text, value) || !std::isfinite(value) || value < 0) {
    throw InvalidArgument(option + ": a number of at least 0 is expected, got '" + text + "'");
  }
  return value;
}

std::uint64_t parse_bytes(const std::string& option, const std::string& text) {
  std::uint64_t bytes = 0;
  try {
    bytes = gpu::parse_size(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(option + ": " + error.what());
  }
  if (bytes == 0) throw InvalidArgument(option + ": a size above 0 is expected, got '" + text + "'");
  return bytes;
}

std::uint64_t parse_cache(const std::string& option, const std::string& text) {
  constexpr std::string_view kMemory = "memory:";
  if (!text.starts_with(kMemory)) {
    throw InvalidArgument(option + ": memory:SIZE is expected, as in memory:1GiB, got '" + text + "'");
  }
  return parse_bytes(option, text.substr(kMemory.size()));
}

}  // namespace penstock::trainer::command
