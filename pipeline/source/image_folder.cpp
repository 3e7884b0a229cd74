// The source over a folder's list: files are read through the runtime's FileReader into the engine's own memory.
#include <penstock/pipeline/source/image_folder.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <numeric>
#include <utility>

#include <sys/stat.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/error_text.h>
#include <penstock/pipeline/source/folder_scan.h>

namespace penstock {
namespace {

constexpr std::size_t kImage = 0;
constexpr std::size_t kLabel = 1;

// One read on its way. After the sink had no room it must not be touched again.
struct PendingRead {
  Sink* sink;
  std::size_t file_bytes = 0;
  bool had_no_room = false;

  std::byte* room(std::size_t bytes) {
    file_bytes = bytes;
    std::byte* const memory = sink->allocate(kImage, Shape{static_cast<std::int64_t>(bytes)});
    had_no_room = memory == nullptr;
    return memory;
  }

  void done(std::error_code error, std::size_t bytes) {
    if (had_no_room) return;
    if (error == std::errc::no_message_available) {
      fail(ErrorKind::kTruncated,
           "the file ended after " + std::to_string(bytes) + " of " + std::to_string(file_bytes) + " bytes");
    } else if (error) {
      fail(ErrorKind::kOpenFailed, io::error_text(error));
    } else if (bytes == 0) {
      fail(ErrorKind::kEmptyFile, "the file is empty");
    } else {
      sink->done();
    }
  }

 private:
  void fail(ErrorKind kind, const std::string& detail) {
    std::exception_ptr error = std::make_exception_ptr(DataError(kind, detail));
    sink->fail(std::move(error));
  }
};

class FolderSource final : public ImageFolder {
 public:
  FolderSource(std::string root, source::FolderListing listing)
      : root_(std::move(root)),
        absolute_root_(std::filesystem::absolute(root_).string()),
        listing_(std::move(listing)),
        label_values_(listing_.classes.size()),
        schema_({{"image", DataType::kU8, Shape{Shape::kUnknown}}, {"label", DataType::kI64, Shape{}}}) {
    std::iota(label_values_.begin(), label_values_.end(), 0);
  }

  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return listing_.file_count(); }
  std::string describe(std::uint64_t index) const override { return root_ + "/" + listing_.name(index); }

  void read(std::uint64_t index, Sink& sink, FileReader& files) const override {
    sink.borrow(kLabel, Shape{}, reinterpret_cast<const std::byte*>(&label_values_[listing_.label(index)]));
    try {
      const auto pending = std::make_shared<PendingRead>(PendingRead{.sink = &sink});
      files.read_file(
          describe(index), [pending](std::size_t bytes) { return pending->room(bytes); },
          [pending](std::error_code error, std::size_t bytes) { pending->done(error, bytes); });
    } catch (...) {
      sink.fail(std::current_exception());
    }
  }

  // A file that cannot be looked at has a fingerprint too: its read will say what is wrong.
  std::string fingerprint(std::uint64_t index) const override {
    const std::string path = absolute_root_ + "/" + listing_.name(index);
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return "file:" + path + ":" + io::error_text(errno);
    return "file:" + path + ":" + std::to_string(status.st_size) + ":" +
           std::to_string(std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec);
  }

  const std::vector<std::string>& classes() const override { return listing_.classes; }
  const std::vector<std::uint64_t>& class_counts() const override { return listing_.class_counts; }
  std::uint64_t ignored_count() const override { return listing_.ignored_count; }
  const std::vector<std::string>& warnings() const override { return listing_.warnings; }

 private:
  std::string root_;
  std::string absolute_root_;
  source::FolderListing listing_;
  std::vector<std::int64_t> label_values_;  // 0, 1, 2, ...: what samples borrow
  Schema schema_;
};

}  // namespace

std::shared_ptr<const ImageFolder> open_image_folder(const std::string& path, const ImageFolderOptions& options) {
  std::string root = path;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  source::FolderListing listing = source::scan_folder(root, options);
  return std::make_shared<FolderSource>(std::move(root), std::move(listing));
}

Pipeline image_folder(std::shared_ptr<const ImageFolder> folder) { return Pipeline(std::move(folder)); }

Pipeline image_folder(const std::string& path, const ImageFolderOptions& options) {
  return image_folder(open_image_folder(path, options));
}

}  // namespace penstock
