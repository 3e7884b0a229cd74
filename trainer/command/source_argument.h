// A data set as it is named on the command line.
#pragma once

#include <string>
#include <vector>

#include <penstock/pipeline/pipeline.h>

namespace penstock::trainer::command {

/// An opened data set: fields `image` and `label`.
struct OpenedSource {
  Pipeline samples;
  std::vector<std::string> classes;  ///< names by label
  std::vector<std::string> notices;  ///< a line each, for people
};

/// Opens `idx:IMAGES,LABELS`, `folder:PATH`, or a bare path to a folder. `classes`: empty for training data, whose own
/// classes are taken (folder names; for IDX files 0 to the largest label); for validation data the classes of training:
/// labels mean the same, and a class or label that training lacks is refused. Throws InvalidArgument or SourceError,
/// which name the option, or the file.
OpenedSource open_source(const std::string& option, const std::string& argument,
                         const std::vector<std::string>& classes = {});

}  // namespace penstock::trainer::command
