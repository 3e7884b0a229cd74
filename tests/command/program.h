// Runs the program `penstock` on small data made for the test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/source_idx_bytes.h"
#include "support/source_temp_folder.h"

namespace penstock::test {

/// The command line of the program with `arguments`.
inline std::vector<std::string> penstock_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{PENSTOCK_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// Runs it to its end in the folder `work`.
inline ChildResult run_penstock(const std::vector<std::string>& arguments, const std::string& work) {
  return run_child(penstock_command(arguments), work);
}

/// Writes NAME-images and NAME-labels: `count` pictures of 28x28, of `class_count` classes in turn. A picture of class
/// k has a bright bar at row 2 + 2k on noise, so that a model can learn it. Gives `idx:IMAGES,LABELS`.
inline std::string write_idx(const TempFolder& folder, const std::string& name, std::uint32_t count,
                             std::uint32_t class_count = 10) {
  std::string pixels = pattern_bytes(std::size_t{count} * 28 * 28, count);
  std::string labels;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t label = i % class_count;
    labels += static_cast<char>(label);
    char* picture = pixels.data() + std::size_t{i} * 28 * 28;
    for (int pixel = 0; pixel < 28 * 28; ++pixel) picture[pixel] = static_cast<char>(picture[pixel] & 0x3f);
    for (int pixel = 0; pixel < 2 * 28; ++pixel) picture[(2 + 2 * label) * 28 + static_cast<unsigned>(pixel)] = '\xf0';
  }
  return "idx:" + folder.write(name + "-images", idx_bytes({count, 28, 28}, pixels)) + "," +
         folder.write(name + "-labels", idx_bytes({count}, labels));
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Names in a folder, its subfolders too, sorted; empty when there is no such folder.
inline std::vector<std::string> names_below(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      names.push_back(std::filesystem::relative(entry.path(), folder));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// `arguments` with `more` after them; a later option replaces an earlier one.
inline std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// A small, quick job on 64 and 24 pictures, without the command's name: 4 steps an epoch.
inline std::vector<std::string> small_job(const TempFolder& folder) {
  return {"--train",   write_idx(folder, "train", 64),
          "--val",     write_idx(folder, "val", 24),
          "--model",   "mlp",
          "--width",   "16",
          "--batch",   "16",
          "--epochs",  "2",
          "--device",  "host",
          "--threads", "2"};
}

}  // namespace penstock::test
