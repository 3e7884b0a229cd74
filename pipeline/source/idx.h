// Data sets in the IDX format: a file of pictures and a file of labels, as MNIST and Fashion-MNIST come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <penstock/pipeline/pipeline.h>

namespace penstock {

/// What is known of the files before they are opened.
struct IdxOptions {
  /// Number of classes: with it, a label outside [0, class_count) is refused when the files are opened. At least 1.
  std::optional<std::int64_t> class_count;
};

/// Opens two IDX files of unsigned bytes, plain or gzip (told by the first bytes, not the name). All is read and
/// checked here, and stays in memory: the unpacked pictures plus 8 bytes a label (MNIST: 47.0 MB + 0.5 MB). Reading a
/// sample copies nothing and never fails.
///
/// Fields: `image` u8 `[H, W, 1]` for records of two dimensions (0x00000803), otherwise the record's own dimensions;
/// `label` i64 `[]`.
///
/// Throws SourceError, which names the file: open_failed, empty_file, bad_magic, truncated, corrupt (too long, a
/// dimension of 0, damaged gzip data), count_mismatch, label_out_of_range. Throws InvalidArgument for a class_count
/// below 1.
std::shared_ptr<const Source> idx_source(const std::string& images_path, const std::string& labels_path,
                                         const IdxOptions& options = {});

/// A pipeline that begins with `idx_source`.
Pipeline idx(const std::string& images_path, const std::string& labels_path, const IdxOptions& options = {});

}  // namespace penstock
