// Folders of JPEG files, one folder a class.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "support/jpeg_bytes.h"
#include "support/source_idx_bytes.h"
#include "support/source_temp_folder.h"

namespace penstock::test {

/// Writes NAME/LABEL/NUMBER.jpg of grey 28x28 pictures. Gives the folder's path.
inline std::string write_picture_folder(const TempFolder& folder, const std::string& name,
                                        std::span<const std::uint8_t> pixels, std::span<const std::uint8_t> labels) {
  constexpr std::size_t kPictureBytes = 28 * 28;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    char number[24];
    std::snprintf(number, sizeof number, "%04zu", i);
    folder.write(name + "/" + std::to_string(labels[i]) + "/" + number + ".jpg",
                 jpeg_bytes(pixels.subspan(i * kPictureBytes, kPictureBytes), 28, 28, 1));
  }
  return folder.path(name);
}

/// The same of noise, of classes 0 to 9 in turn.
inline std::string write_picture_folder(const TempFolder& folder, const std::string& name, std::size_t count) {
  const std::string noise = pattern_bytes(count * 28 * 28);
  std::string labels;
  for (std::size_t i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  return write_picture_folder(folder, name, {reinterpret_cast<const std::uint8_t*>(noise.data()), noise.size()},
                              {reinterpret_cast<const std::uint8_t*>(labels.data()), labels.size()});
}

}  // namespace penstock::test
