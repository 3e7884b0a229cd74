// Sizes as people write and read them.
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>

#include <penstock/gpu/byte_text.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

struct Unit {
  std::string_view name;  // in lower case
  std::uint64_t bytes;
};
constexpr std::array<Unit, 9> kUnits{{{"b", 1},
                                      {"kib", std::uint64_t{1} << 10},
                                      {"mib", std::uint64_t{1} << 20},
                                      {"gib", std::uint64_t{1} << 30},
                                      {"tib", std::uint64_t{1} << 40},
                                      {"kb", 1'000},
                                      {"mb", 1'000'000},
                                      {"gb", 1'000'000'000},
                                      {"tb", 1'000'000'000'000}}};
constexpr std::size_t kMostFractionDigits = 6;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw InvalidArgument("size \"" + text + "\": " + why +
                        "; expected bytes or a number with KiB, MiB, GiB, TiB, kB, MB, GB or TB, like 64MiB, 1.5GB or "
                        "200000000");
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t count_digits(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  return count;
}

std::uint64_t unit_bytes(const std::string& text, std::string_view name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  refuse(text, std::string("\"").append(name).append("\" is no unit"));
}

// Hundredths of a unit, rounded as asked. Divides first, so that no size overflows.
enum class Rounding { kNearest, kUp, kDown };
std::uint64_t hundredths(std::uint64_t bytes, std::uint64_t unit, Rounding rounding) {
  const std::uint64_t rest = bytes % unit * 100;  // unit is at most 2^40
  const std::uint64_t extra = rounding == Rounding::kUp ? unit - 1 : rounding == Rounding::kNearest ? unit / 2 : 0;
  return bytes / unit * 100 + (rest + extra) / unit;
}

std::string format(std::uint64_t bytes, Rounding rounding) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  static constexpr std::array<const char*, 4> kNames{"KiB", "MiB", "GiB", "TiB"};
  std::size_t step = 0;
  std::uint64_t value = hundredths(bytes, 1024, rounding);
  while (value >= 102400 && step + 1 < kNames.size()) {
    ++step;
    value = hundredths(bytes, std::uint64_t{1} << (10 * (step + 1)), rounding);
  }
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%02llu %s", static_cast<unsigned long long>(value / 100),
                static_cast<unsigned long long>(value % 100), kNames[step]);
  return text;
}

}  // namespace

std::uint64_t parse_size(const std::string& text) {
  std::string_view rest = text;
  const std::string_view whole_digits = rest.substr(0, count_digits(rest));
  if (whole_digits.empty()) refuse(text, "it does not begin with a digit");
  rest.remove_prefix(whole_digits.size());
  std::string_view fraction_digits;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction_digits = rest.substr(0, count_digits(rest));
    if (fraction_digits.empty()) refuse(text, "no digit follows the point");
    if (fraction_digits.size() > kMostFractionDigits) refuse(text, "more than 6 digits follow the point");
    rest.remove_prefix(fraction_digits.size());
  }
  const bool spaced = rest.starts_with(' ');
  if (spaced) rest.remove_prefix(1);
  if (spaced && rest.empty()) refuse(text, "no unit follows the space");
  if (rest.empty() && !fraction_digits.empty()) refuse(text, "bytes are a whole number");
  const std::uint64_t unit = rest.empty() ? 1 : unit_bytes(text, rest);
  if (unit == 1 && !fraction_digits.empty()) refuse(text, "bytes are a whole number");

  std::uint64_t bytes = 0;
  const auto multiply_add = [&text](std::uint64_t value, std::uint64_t factor, std::uint64_t addend) {
    if (value > (kNoCap - addend) / factor) refuse(text, "it is too large");
    return value * factor + addend;
  };
  for (const char digit : whole_digits) bytes = multiply_add(bytes, 10, static_cast<std::uint64_t>(digit - '0'));
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;
  for (const char digit : fraction_digits) {
    numerator = numerator * 10 + static_cast<std::uint64_t>(digit - '0');
    denominator *= 10;
  }
  return multiply_add(bytes, unit, numerator * unit / denominator);
}

std::string format_size(std::uint64_t bytes) { return format(bytes, Rounding::kNearest); }
std::string format_size_up(std::uint64_t bytes) { return format(bytes, Rounding::kUp); }
std::string format_size_down(std::uint64_t bytes) { return format(bytes, Rounding::kDown); }

}  // namespace penstock::gpu
