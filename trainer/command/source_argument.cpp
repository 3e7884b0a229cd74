// The class list of training is the one that counts: validation is opened with it.
#include <penstock/trainer/command/source_argument.h>

#include <filesystem>
#include <set>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/source/idx.h>
#include <penstock/pipeline/source/idx_file.h>
#include <penstock/pipeline/source/image_folder.h>

namespace penstock::trainer::command {
namespace {

constexpr const char* kForms = "a source is idx:IMAGES,LABELS or folder:PATH, or the path of a folder";

OpenedSource open_idx(const std::string& option, const std::string& paths, const std::vector<std::string>& classes) {
  const std::size_t comma = paths.find(',');
  if (comma == 0 || comma == paths.npos || comma + 1 == paths.size() || paths.find(',', comma + 1) != paths.npos) {
    throw InvalidArgument(option + ": idx:IMAGES,LABELS is expected, two paths and a comma, got 'idx:" + paths + "'");
  }
  const std::string labels_path = paths.substr(comma + 1);
  IdxOptions options;
  if (!classes.empty()) options.class_count = static_cast<std::int64_t>(classes.size());
  OpenedSource opened{idx(paths.substr(0, comma), labels_path, options), classes, {}};
  if (classes.empty()) {
    const source::IdxFile labels = source::read_idx_file(labels_path, source::IdxContent::kLabels);
    const std::set<std::byte> seen(labels.bytes.begin(), labels.bytes.end());
    const std::size_t count = seen.empty() ? 0 : std::to_integer<std::size_t>(*seen.rbegin()) + 1;
    for (std::size_t label = 0; label < count; ++label) opened.classes.push_back(std::to_string(label));
    if (seen.size() < count) {
      opened.notices.push_back(labels_path + ": " + std::to_string(count - seen.size()) + " of the " +
                               std::to_string(count) + " classes, 0 to " + std::to_string(count - 1) +
                               ", have no samples");
    }
  }
  return opened;
}

OpenedSource open_folder(const std::string& option, const std::string& path, const std::vector<std::string>& classes) {
  if (path.empty()) throw InvalidArgument(option + ": folder:PATH is expected, got 'folder:'");
  const std::shared_ptr<const ImageFolder> folder = open_image_folder(path, {.classes = classes});
  OpenedSource opened{image_folder(folder), folder->classes(), folder->warnings()};
  if (folder->ignored_count() > 0) {
    opened.notices.push_back(path + ": " + std::to_string(folder->ignored_count()) +
                             " files or folders are no pictures by name, or hidden: left out");
  }
  return opened;
}

OpenedSource open_form(const std::string& option, const std::string& argument,
                       const std::vector<std::string>& classes) {
  if (argument.starts_with("idx:")) return open_idx(option, argument.substr(4), classes);
  if (argument.starts_with("folder:")) return open_folder(option, argument.substr(7), classes);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(argument, error);
  if (std::filesystem::is_directory(status)) return open_folder(option, argument, classes);
  if (std::filesystem::exists(status)) {
    throw InvalidArgument(option + ": '" + argument + "' is a file; " + kForms);
  }
  throw InvalidArgument(option + ": '" + argument + "': no such folder; " + kForms);
}

}  // namespace

OpenedSource open_source(const std::string& option, const std::string& argument,
                         const std::vector<std::string>& classes) {
  OpenedSource opened = open_form(option, argument, classes);
  if (opened.samples.size() == 0U) throw InvalidArgument(option + ": '" + argument + "' has no samples");
  return opened;
}

}  // namespace penstock::trainer::command
