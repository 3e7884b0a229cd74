// The name of an errno value and the system's text for it; the name is what people search for.
#include <penstock/pipeline/io/error_text.h>

#include <cstring>

namespace penstock::io {

std::string error_text(std::error_code error) {
  const char* name = nullptr;
  if (error.category() == std::generic_category() || error.category() == std::system_category()) {
    name = ::strerrorname_np(error.value());
  }
  return (name != nullptr ? std::string(name) + ": " : std::string()) + error.message();
}

std::string error_text(int errno_value) { return error_text(std::error_code(errno_value, std::generic_category())); }

}  // namespace penstock::io
