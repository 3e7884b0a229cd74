// One file from open to close: what an I/O thread does.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <system_error>

namespace penstock::io {

/// What became of a read. `error` is empty when all bytes are there; `bytes` are those that were read.
struct ReadResult {
  std::error_code error;
  std::size_t bytes = 0;
};

/// Reads `path` into the memory that `room(size)` gives; asks for none when the file is empty. Ends early with
/// std::errc::operation_canceled when `room` gives null or `cancelled` turns true. Blocks; throws nothing of its own.
ReadResult read_whole_file(const std::string& path, const std::function<std::byte*(std::size_t)>& room,
                           const std::atomic<bool>& cancelled);

}  // namespace penstock::io
