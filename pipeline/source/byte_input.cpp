// zlib's gz functions take a cut file for a whole one and pass over what follows a member, so members are counted here.
#include <penstock/pipeline/source/byte_input.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/error_text.h>

namespace penstock::source {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
constexpr int kGzipWindow = 16 + MAX_WBITS;

[[noreturn]] void refuse_open(const std::string& path, int code) {
  throw SourceError(ErrorKind::kOpenFailed, path, io::error_text(code));
}

}  // namespace

void ByteInput::EndStream::operator()(z_stream_s* stream) const noexcept {
  inflateEnd(stream);
  delete stream;
}

ByteInput::ByteInput(std::string path)
    : path_(std::move(path)),
      file_(io::open_retrying(AT_FDCWD, path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      buffer_(kBufferBytes) {
  if (!file_) refuse_open(path_, errno);
  struct stat status{};
  if (::fstat(file_.get(), &status) != 0) refuse_open(path_, errno);
  if (!S_ISREG(status.st_mode)) refuse_open(path_, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  modified_ns_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  refill();
  if (end_ == 0) throw SourceError(ErrorKind::kEmptyFile, path_, "the file is empty");
  if (end_ >= 2 && buffer_[0] == std::byte{0x1f} && buffer_[1] == std::byte{0x8b}) {
    auto stream = std::make_unique<z_stream>();
    if (inflateInit2(stream.get(), kGzipWindow) != Z_OK) throw std::bad_alloc();
    stream_.reset(stream.release());
  }
}

ByteInput::~ByteInput() = default;

std::size_t ByteInput::read(std::byte* to, std::size_t count) {
  return is_gzip() ? read_gzip(to, count) : read_plain(to, count);
}

// Afterwards at_ == end_ means the end of the file.
void ByteInput::refill() {
  at_ = end_ = 0;
  while (end_ < buffer_.size()) {
    const ssize_t got = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_open(path_, errno);
    if (got == 0) return;
    end_ += static_cast<std::size_t>(got);
  }
}

std::size_t ByteInput::read_plain(std::byte* to, std::size_t count) {
  std::size_t have = 0;
  while (have < count) {
    if (at_ == end_) refill();
    if (at_ == end_) break;
    const std::size_t part = std::min(count - have, end_ - at_);
    std::copy_n(buffer_.data() + at_, part, to + have);
    at_ += part;
    have += part;
  }
  return have;
}

std::size_t ByteInput::read_gzip(std::byte* to, std::size_t count) {
  std::size_t have = 0;
  while (have < count) {
    if (at_ == end_) refill();
    if (at_ == end_) {
      cut_short_ = !member_ended_;
      break;
    }
    if (member_ended_ && !start_next_member()) continue;

    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    stream_->next_in = reinterpret_cast<Bytef*>(buffer_.data() + at_);
    stream_->avail_in = static_cast<uInt>(end_ - at_);
    const std::size_t room = std::min(count - have, kMost);
    stream_->next_out = reinterpret_cast<Bytef*>(to + have);
    stream_->avail_out = static_cast<uInt>(room);
    const int outcome = inflate(stream_.get(), Z_NO_FLUSH);
    at_ = end_ - stream_->avail_in;
    have += room - stream_->avail_out;
    if (outcome == Z_STREAM_END) {
      member_ended_ = true;
    } else if (outcome == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
      const char* const text = stream_->msg != nullptr ? stream_->msg : "damaged data";
      throw SourceError(ErrorKind::kCorrupt, path_, std::string("gzip: ") + text);
    }
  }
  return have;
}

// False: what is there was padding, and has been passed over.
bool ByteInput::start_next_member() {
  if (buffer_[at_] == std::byte{0}) {
    in_padding_ = true;
    while (at_ < end_ && buffer_[at_] == std::byte{0}) ++at_;
    return false;
  }
  if (in_padding_) throw SourceError(ErrorKind::kCorrupt, path_, "gzip: bytes after the padding of the last member");
  inflateReset(stream_.get());
  member_ended_ = false;
  return true;
}

}  // namespace penstock::source
