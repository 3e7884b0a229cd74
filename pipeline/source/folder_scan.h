// The list of pictures below a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/pipeline/source/image_folder.h>

namespace penstock::source {

/// Files in byte-wise order of their paths below the folder.
struct FolderListing {
  /// Where the files of one class folder begin. They lie side by side, since they share the beginning of their paths.
  struct ClassRun {
    std::uint64_t first_file;
    std::size_t label;
  };

  std::vector<char> names;             ///< paths below the folder, each ended by a zero byte
  std::vector<std::uint64_t> offsets;  ///< of each path in `names`
  std::vector<ClassRun> runs;          ///< by first_file, ascending
  std::vector<std::string> classes;
  std::vector<std::uint64_t> class_counts;
  std::vector<std::string> warnings;
  std::uint64_t ignored_count = 0;

  std::size_t file_count() const noexcept { return offsets.size(); }
  const char* name(std::uint64_t file) const noexcept { return names.data() + offsets[file]; }
  /// Position in `classes` of the class of a file.
  std::size_t label(std::uint64_t file) const noexcept;
};

/// Lists `root` by the rules of open_image_folder, and throws what that throws.
FolderListing scan_folder(const std::string& root, const ImageFolderOptions& options);

}  // namespace penstock::source
