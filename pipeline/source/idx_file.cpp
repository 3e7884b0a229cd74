// The header is believed only as far as the file bears it out: a plain file's size is compared before memory is taken,
// and a gzip file's memory grows with what comes out of it.
#include <penstock/pipeline/source/idx_file.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <span>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/source/byte_input.h>
#include <penstock/pipeline/tensor.h>

namespace penstock::source {
namespace {

std::uint32_t big_endian(std::span<const std::byte, 4> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

std::string hex(std::uint32_t value) {
  std::array<char, 11> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

[[noreturn]] void refuse_cut(const ByteInput& input, const std::string& expected, std::uint64_t found) {
  throw SourceError(ErrorKind::kTruncated, input.path(),
                    std::string(input.is_gzip() ? "gzip data cut short: " : "") + "expected " + expected +
                        " bytes, found " + std::to_string(found));
}

std::uint32_t read_word(ByteInput& input, std::uint64_t offset, std::uint64_t header_bytes) {
  std::array<std::byte, 4> word;
  const std::size_t got = input.read(word.data(), word.size());
  if (got < word.size()) refuse_cut(input, "at least " + std::to_string(header_bytes), offset + got);
  return big_endian(word);
}

std::vector<std::int64_t> read_header(ByteInput& input, IdxContent content) {
  const std::uint32_t due = content == IdxContent::kImages ? 0x803 : 0x801;
  const std::uint32_t magic = read_word(input, 0, 4);
  const std::uint32_t rank = magic & 0xff;
  const bool good =
      content == IdxContent::kLabels ? magic == due : magic >> 8 == 8 && rank >= 2 && rank <= Shape::kMaxRank;
  if (!good) throw SourceError(ErrorKind::kBadMagic, input.path(), hex(magic) + " where " + hex(due) + " is due");

  const std::uint64_t header_bytes = 4 + 4 * std::uint64_t{rank};
  std::vector<std::int64_t> dims(rank);
  for (std::uint32_t i = 0; i < rank; ++i) {
    dims[i] = read_word(input, 4 + 4 * std::uint64_t{i}, header_bytes);
    if (i > 0 && dims[i] == 0) {
      throw SourceError(ErrorKind::kCorrupt, input.path(), "dimension " + std::to_string(i) + " is 0");
    }
  }
  return dims;
}

std::uint64_t payload_bytes(const ByteInput& input, const std::vector<std::int64_t>& dims) {
  std::uint64_t bytes = 1;
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes) ||
        bytes > std::uint64_t{std::numeric_limits<std::int64_t>::max()} - 64) {
      throw SourceError(ErrorKind::kCorrupt, input.path(), "the header claims more than 2^63 bytes");
    }
  }
  return bytes;
}

}  // namespace

IdxFile read_idx_file(const std::string& path, IdxContent content) {
  ByteInput input(path);
  IdxFile file;
  file.dims = read_header(input, content);
  file.stamp = std::filesystem::absolute(path).string() + ":" + std::to_string(input.file_bytes()) + ":" +
               std::to_string(input.modified_ns());

  const std::uint64_t header_bytes = 4 + 4 * file.dims.size();
  const std::uint64_t expected = payload_bytes(input, file.dims);
  const auto refuse_long = [&](const std::string& found) {
    throw SourceError(ErrorKind::kCorrupt, path,
                      "expected " + std::to_string(header_bytes + expected) + " bytes, found " + found);
  };
  if (!input.is_gzip()) {
    if (input.file_bytes() < header_bytes + expected) {
      refuse_cut(input, std::to_string(header_bytes + expected), input.file_bytes());
    }
    if (input.file_bytes() > header_bytes + expected) refuse_long(std::to_string(input.file_bytes()));
  }

  // Pictures and labels seldom shrink to less than a sixteenth; beyond that the memory doubles as data come.
  std::uint64_t room = input.is_gzip() ? std::min(expected, 16 * input.file_bytes() + 4096) : expected;
  std::uint64_t have = 0;
  while (have < expected) {
    file.bytes.resize(room);
    have += input.read(file.bytes.data() + have, room - have);
    if (have < room) refuse_cut(input, std::to_string(header_bytes + expected), header_bytes + have);
    room = std::min(expected, 2 * room);
  }
  std::byte beyond{};
  if (input.read(&beyond, 1) > 0) refuse_long("more");
  if (input.cut_short()) {
    throw SourceError(
        ErrorKind::kTruncated, path,
        "gzip data cut short: the checksum after " + std::to_string(header_bytes + expected) + " bytes is missing");
  }
  file.bytes.shrink_to_fit();
  return file;
}

}  // namespace penstock::source
