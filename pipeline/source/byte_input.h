// Bytes of a file in order, unpacked when the file is a gzip one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/io/descriptor.h>

struct z_stream_s;

namespace penstock::source {

/// Reads a file from front to back. Gzip is told by its first two bytes, never by the name, and may have several
/// members; zero bytes after the last one are padding. Throws SourceError with the path: open_failed, empty_file,
/// corrupt.
class ByteInput {
 public:
  explicit ByteInput(std::string path);
  ByteInput(const ByteInput&) = delete;
  ~ByteInput();

  /// Up to `count` bytes into `to`; fewer only at the end of the data, and then `cut_short()` says whether that end is
  /// a whole one.
  std::size_t read(std::byte* to, std::size_t count);
  /// The gzip data ended in the middle of a member.
  bool cut_short() const noexcept { return cut_short_; }
  bool is_gzip() const noexcept { return stream_ != nullptr; }
  const std::string& path() const noexcept { return path_; }
  /// Of the file as it lies on disk.
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::int64_t modified_ns() const noexcept { return modified_ns_; }

 private:
  void refill();
  std::size_t read_plain(std::byte* to, std::size_t count);
  std::size_t read_gzip(std::byte* to, std::size_t count);
  bool start_next_member();

  struct EndStream {
    void operator()(z_stream_s* stream) const noexcept;
  };

  std::string path_;
  io::Descriptor file_;
  std::uint64_t file_bytes_ = 0;
  std::int64_t modified_ns_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;   // next unread byte of buffer_
  std::size_t end_ = 0;  // end of the bytes read into buffer_
  std::unique_ptr<z_stream_s, EndStream> stream_;
  bool member_ended_ = false;
  bool in_padding_ = false;
  bool cut_short_ = false;
};

}  // namespace penstock::source
