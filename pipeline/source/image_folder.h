// Pictures in folders named after their classes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/pipeline.h>

namespace penstock {

/// Which files count, and as which classes.
struct ImageFolderOptions {
  /// Class names in the order of their labels, as training found them: give these when opening a validation folder, so
  /// that its labels mean the same though a class may be missing there. Empty: the folders found, in byte-wise order.
  std::vector<std::string> classes = {};
  /// Brings back files and folders whose names begin with a dot.
  bool include_hidden = false;
  /// What the names of pictures end with, compared without regard to the case of ASCII letters.
  std::vector<std::string> suffixes = {".jpg", ".jpeg", ".jpe", ".png"};
};

/// A folder with one folder a class, and the pictures of the class anywhere below it. Its samples are in byte-wise
/// order of their paths below the folder, whatever the file system's own order.
///
/// Fields: `image` u8 `[?]`, the bytes of the file; `label` i64 `[]`, the position of its class in `classes()`.
///
/// Keeps its list of names in one block: 9 bytes a file and the path below the folder.
class ImageFolder : public Source {
 public:
  /// Class names in the order of their labels.
  virtual const std::vector<std::string>& classes() const = 0;
  /// Pictures of each class.
  virtual const std::vector<std::uint64_t>& class_counts() const = 0;
  /// Files and folders that were passed over: names that begin with a dot, names without a picture's suffix, files
  /// outside of class folders, what is neither file nor folder, and links back to a folder above.
  virtual std::uint64_t ignored_count() const = 0;
  /// For people: classes without pictures. They keep their numbers.
  virtual const std::vector<std::string>& warnings() const = 0;
};

/// Lists the folder; reads no file. A link is taken for what it points to; one that points nowhere is listed by its
/// name, and fails when it is read. Throws SourceError, which names the folder: open_failed for one that cannot be
/// listed, unknown_class for a class folder that `options.classes` lacks, other for a folder without any picture.
/// Throws InvalidArgument for a doubled or empty class name, or an empty suffix.
std::shared_ptr<const ImageFolder> open_image_folder(const std::string& path, const ImageFolderOptions& options = {});

/// A pipeline that begins with the folder.
Pipeline image_folder(std::shared_ptr<const ImageFolder> folder);
/// The same for a folder opened here.
Pipeline image_folder(const std::string& path, const ImageFolderOptions& options = {});

}  // namespace penstock
