// Opened without waiting (O_NONBLOCK matters for pipes only), so that a pipe named x.jpg is refused and hangs nobody.
#include <penstock/pipeline/io/whole_file.h>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/pipeline/io/descriptor.h>

namespace penstock::io {
namespace {

// Linux reads at most 0x7ffff000 bytes a call; smaller pieces let a cancelled read end sooner.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

std::error_code from_errno(int code) { return {code, std::generic_category()}; }

}  // namespace

ReadResult read_whole_file(const std::string& path, const std::function<std::byte*(std::size_t)>& room,
                           const std::atomic<bool>& cancelled) {
  const ReadResult given_up{std::make_error_code(std::errc::operation_canceled), 0};
  if (cancelled.load(std::memory_order_relaxed)) return given_up;

  const Descriptor file(open_retrying(AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return {from_errno(errno), 0};
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return {from_errno(errno), 0};
  if (S_ISDIR(status.st_mode)) return {from_errno(EISDIR), 0};
  if (!S_ISREG(status.st_mode)) return {from_errno(EINVAL), 0};

  const std::size_t size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  std::byte* const memory = room(size);
  if (memory == nullptr) return given_up;

  std::size_t have = 0;
  while (have < size) {
    if (cancelled.load(std::memory_order_relaxed)) return {given_up.error, have};
    const ssize_t got = ::read(file.get(), memory + have, std::min(size - have, kPieceBytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {from_errno(errno), have};
    if (got == 0) return {from_errno(ENODATA), have};
    have += static_cast<std::size_t>(got);
  }
  return {{}, have};
}

}  // namespace penstock::io
