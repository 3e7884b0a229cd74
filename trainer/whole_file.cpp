// POSIX calls, since the standard library cannot sync. The file beside is always the same, so a run that was killed
// while writing leaves at most one, which the next write takes over.
#include <penstock/trainer/whole_file.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/descriptor.h>

namespace penstock::trainer {

namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what, int error) {
  throw Error(std::string(what) + " \"" + file.string() + "\": " + std::generic_category().message(error));
}

void write_all(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(file, "cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const io::Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor || ::fsync(descriptor.get()) != 0) fail(folder, "cannot sync", errno);
}

}  // namespace

void replace_file(const std::filesystem::path& file, std::span<const std::span<const std::byte>> parts) {
  const std::filesystem::path aside = file.string() + ".part";
  try {
    io::Descriptor descriptor(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!descriptor) fail(aside, "cannot create", errno);
    for (const std::span<const std::byte>& part : parts) write_all(descriptor.get(), part, aside);
    if (::fsync(descriptor.get()) != 0) fail(aside, "cannot sync", errno);
    if (::close(descriptor.release()) != 0) fail(aside, "cannot close", errno);
    if (std::rename(aside.c_str(), file.c_str()) != 0) fail(file, "cannot rename to", errno);
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  sync_folder(file.has_parent_path() ? file.parent_path() : ".");
}

void replace_file(const std::filesystem::path& file, std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  replace_file(file, {&bytes, 1});
}

std::vector<std::byte> read_file(const std::filesystem::path& file) {
  const io::Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) fail(file, "cannot open", errno);
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) fail(file, "cannot read", errno);
  if (!S_ISREG(status.st_mode)) fail(file, "cannot read", EISDIR);
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t count = ::read(descriptor.get(), bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(file, "cannot read", errno);
    if (count == 0) break;
    at += static_cast<std::size_t>(count);
  }
  bytes.resize(at);
  return bytes;
}

std::string read_text(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = read_file(file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace penstock::trainer
