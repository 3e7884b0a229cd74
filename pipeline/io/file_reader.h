// Reading whole files without blocking a worker.
#pragma once

#include <cstddef>
#include <memory>

#include <penstock/pipeline/source.h>

namespace penstock {

/// Slow storage is waited for by up to this many threads.
inline constexpr std::size_t kMostIoThreads = 64;

/// A reader with `threads` I/O threads of its own (1 to 1024; InvalidArgument otherwise), of nice value + `nice`. Where
/// reads take more than half a millisecond and others wait, threads are added, up to kMostIoThreads or a quarter of the
/// descriptors that the process may have; at most one file a thread is open at any time, however many reads wait.
///
/// Errors keep their errno in the generic category (ENOENT, EACCES, ...): a folder is EISDIR, a pipe or a device
/// EINVAL. A file that became shorter while it was read is ENODATA with the bytes that were there; one that grew is
/// read up to the size it had when it was opened. An empty file asks for no room and is `done` with 0 bytes.
///
/// Destroying the reader ends the reads that wait with std::errc::operation_canceled, lets those in flight end (or
/// cancels them between two calls of read), calls every `done`, and joins the threads; so it blocks for as long as one
/// read does, and it must not happen on one of the reader's own threads.
std::shared_ptr<FileReader> make_file_reader(std::size_t threads, int nice = 0);

}  // namespace penstock
