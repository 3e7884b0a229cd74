// Measures first, so that nothing is cut.
#include <penstock/trainer/command/printed.h>

#include <cstdarg>
#include <cstdio>

namespace penstock::trainer::command {

std::string printed(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace penstock::trainer::command
