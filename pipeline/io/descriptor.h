// Owns an open file of the operating system.
#pragma once

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace penstock::io {

/// Closes its descriptor when it goes out of scope; moved-from is empty. Leaves errno alone.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Descriptor old(std::exchange(descriptor_, std::exchange(other.descriptor_, -1)));
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ < 0) return;
    const int saved = errno;
    ::close(descriptor_);
    errno = saved;
  }
  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  /// Gives the descriptor away.
  int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// openat, asked again while a signal interrupts it. -1 and errno on failure.
inline int open_retrying(int folder, const char* path, int flags) noexcept {
  for (;;) {
    const int descriptor = ::openat(folder, path, flags);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

}  // namespace penstock::io
