// One file of the IDX format, checked and held.
//
//   offset 0   0x00 0x00 type rank      type 0x08: unsigned bytes, the only one read here
//          4   rank times: dimension, 32 bits, big-endian; the first is the number of records
//   4+4*rank   product of the dimensions bytes, records one after the other
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::source {

/// What an IDX file is expected to hold.
enum class IdxContent : std::uint8_t {
  kImages,  ///< rank 2 to 6, 0x00000803 for plain grey pictures
  kLabels,  ///< rank 1, 0x00000801
};

/// A whole IDX file in memory.
struct IdxFile {
  std::vector<std::int64_t> dims;  ///< as in the header; the first is the number of records
  std::vector<std::byte> bytes;    ///< all records, without the header
  std::string stamp;               ///< `path:size:mtime in ns` of the file, for fingerprints
};

/// Reads and checks a file, plain or gzip. Throws SourceError: open_failed, empty_file, bad_magic, truncated, corrupt
/// (more bytes than the header says, a dimension of 0, damaged gzip data). Allocates no more than the data that are
/// there.
IdxFile read_idx_file(const std::string& path, IdxContent content);

}  // namespace penstock::source
