// Each folder is sorted by itself, with a slash after the names of folders: walking in that order visits the files in
// byte-wise order of their whole paths, and no sort of all paths is needed. One folder is open at a time.
#include <penstock/pipeline/source/folder_scan.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string_view>
#include <unordered_map>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/descriptor.h>
#include <penstock/pipeline/io/error_text.h>

namespace penstock::source {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool ends_with(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() &&
         std::ranges::equal(name.substr(name.size() - suffix.size()), suffix, {}, lower, lower);
}

// Tells a folder from another one, whatever path led to it.
struct FolderId {
  dev_t device;
  ino_t inode;
  friend bool operator==(const FolderId&, const FolderId&) = default;
};

enum class EntryType { kFile, kFolder, kOther };

EntryType entry_type(int folder, const dirent& entry) {
  if (entry.d_type == DT_REG) return EntryType::kFile;
  if (entry.d_type == DT_DIR) return EntryType::kFolder;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return EntryType::kOther;
  struct stat status{};
  // A link that points nowhere is a file that cannot be read: it must not vanish without a word.
  if (::fstatat(folder, entry.d_name, &status, 0) != 0) return EntryType::kFile;
  if (S_ISREG(status.st_mode)) return EntryType::kFile;
  return S_ISDIR(status.st_mode) ? EntryType::kFolder : EntryType::kOther;
}

class Scan {
 public:
  Scan(const std::string& root, const ImageFolderOptions& options, FolderListing& listing)
      : root_path_(root),
        options_(options),
        listing_(listing),
        root_(io::open_retrying(AT_FDCWD, root.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY)) {
    if (!root_) refuse(root_path_, errno);
  }

  void run() {
    std::vector<std::string> folders = list({});
    // Files beside the class folders have no class.
    listing_.ignored_count +=
        static_cast<std::uint64_t>(std::erase_if(folders, [](const std::string& name) { return name.back() != '/'; }));
    number_classes(folders);
    for (const std::string& folder : folders) {
      label_ = labels_.at(folder.substr(0, folder.size() - 1));
      listing_.runs.push_back({listing_.file_count(), label_});
      walk(folder);
    }
    listing_.names.shrink_to_fit();
    listing_.offsets.shrink_to_fit();
  }

 private:
  [[noreturn]] static void refuse(const std::string& path, int code) {
    throw SourceError(ErrorKind::kOpenFailed, path, io::error_text(code));
  }

  std::string full(const std::string& relative) const {
    if (relative.empty()) return root_path_;
    return root_path_ + "/" + relative.substr(0, relative.size() - 1);
  }

  void number_classes(const std::vector<std::string>& folders) {
    listing_.classes = options_.classes;
    if (listing_.classes.empty()) {
      for (const std::string& folder : folders) listing_.classes.push_back(folder.substr(0, folder.size() - 1));
      // The slash that orders the walk is not part of a class name: "a-b" comes before "a/", but after "a".
      std::ranges::sort(listing_.classes);
    }
    for (std::size_t i = 0; i < listing_.classes.size(); ++i) labels_.emplace(listing_.classes[i], i);
    listing_.class_counts.resize(listing_.classes.size());
    for (const std::string& folder : folders) {
      const std::string name = folder.substr(0, folder.size() - 1);
      if (labels_.contains(name)) continue;
      throw SourceError(
          ErrorKind::kUnknownClass, full(folder),
          "class \"" + name + "\" is not among the " + std::to_string(listing_.classes.size()) + " classes given");
    }
  }

  // `relative` is empty or ends with a slash.
  void walk(const std::string& relative) {
    for (const std::string& name : list(relative)) {
      if (name.back() == '/') {
        walk(relative + name);
      } else {
        listing_.offsets.push_back(listing_.names.size());
        listing_.names.insert(listing_.names.end(), relative.begin(), relative.end());
        listing_.names.insert(listing_.names.end(), name.begin(), name.end());
        listing_.names.push_back('\0');
        ++listing_.class_counts[label_];
      }
    }
    above_.pop_back();
  }

  // Names in the order of the walk, folders with a slash; what is passed over is counted. Leaves the folder on
  // `above_`.
  std::vector<std::string> list(const std::string& relative) {
    io::Descriptor descriptor(
        io::open_retrying(root_.get(), relative.empty() ? "." : relative.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
    struct stat status{};
    if (!descriptor || ::fstat(descriptor.get(), &status) != 0) refuse(full(relative), errno);
    const FolderId id{status.st_dev, status.st_ino};
    const bool seen = std::ranges::find(above_, id) != above_.end();
    above_.push_back(id);
    if (seen) {
      ++listing_.ignored_count;
      return {};
    }

    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(descriptor.get()),
                                                     [](DIR* dir) { return ::closedir(dir); });
    if (!folder) refuse(full(relative), errno);
    descriptor.release();
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(folder.get());
      if (entry == nullptr && errno != 0) refuse(full(relative), errno);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      const EntryType type = entry_type(::dirfd(folder.get()), *entry);
      if (!wanted(name, type)) {
        ++listing_.ignored_count;
        continue;
      }
      names.emplace_back(name);
      if (type == EntryType::kFolder) names.back() += '/';
    }
    // char_traits<char> compares bytes as unsigned values.
    std::ranges::sort(names);
    return names;
  }

  bool wanted(std::string_view name, EntryType type) const {
    if (type == EntryType::kOther || (name.front() == '.' && !options_.include_hidden)) return false;
    return type == EntryType::kFolder ||
           std::ranges::any_of(options_.suffixes, [&](const std::string& suffix) { return ends_with(name, suffix); });
  }

  const std::string& root_path_;
  const ImageFolderOptions& options_;
  FolderListing& listing_;
  io::Descriptor root_;
  std::unordered_map<std::string, std::size_t> labels_;
  std::vector<FolderId> above_;  // the folders from the root to the one being walked
  std::size_t label_ = 0;
};

void check(const ImageFolderOptions& options) {
  std::vector<std::string> names = options.classes;
  std::ranges::sort(names);
  if (!names.empty() && names.front().empty()) throw InvalidArgument("image_folder: a class name is empty");
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) throw InvalidArgument("image_folder: class \"" + *twice + "\" is given twice");
  if (options.suffixes.empty() || std::ranges::any_of(options.suffixes, &std::string::empty)) {
    throw InvalidArgument("image_folder: no suffix, or an empty one, is given");
  }
}

}  // namespace

std::size_t FolderListing::label(std::uint64_t file) const noexcept {
  // The last run that begins at or before the file; empty runs before it begin at the same file.
  const auto after = std::ranges::upper_bound(runs, file, {}, &ClassRun::first_file);
  return std::prev(after)->label;
}

FolderListing scan_folder(const std::string& root, const ImageFolderOptions& options) {
  check(options);
  FolderListing listing;
  Scan(root, options, listing).run();
  if (listing.file_count() == 0) {
    const std::string where = listing.runs.empty()
                                  ? "no class folders, so no pictures"
                                  : "no pictures in its " + std::to_string(listing.runs.size()) + " class folders";
    throw SourceError(ErrorKind::kOther, root,
                      where + " (" + std::to_string(listing.ignored_count) + " names ignored)");
  }
  for (std::size_t i = 0; i < listing.classes.size(); ++i) {
    if (listing.class_counts[i] != 0) continue;
    listing.warnings.push_back("class \"" + listing.classes[i] + "\" has no pictures");
  }
  return listing;
}

}  // namespace penstock::source
