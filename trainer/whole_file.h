// Files that are there whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::trainer {

/// Writes `parts` one after the other to a file beside `file`, syncs it, renames it over `file`, and syncs the folder.
/// Throws Error with the path and the system's reason; `file` is then as it was, and nothing is left over.
void replace_file(const std::filesystem::path& file, std::span<const std::span<const std::byte>> parts);
/// The same with one text.
void replace_file(const std::filesystem::path& file, std::string_view text);
/// All bytes. Throws Error with the path and the system's reason.
std::vector<std::byte> read_file(const std::filesystem::path& file);
/// The same as text.
std::string read_text(const std::filesystem::path& file);

}  // namespace penstock::trainer
