// Options that all commands share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace penstock::trainer::command {

/// As typed; `threads()` and `seed()` check and convert.
struct CommonOptions {
  std::string device = "auto";
  std::string threads_text = "0";
  std::string seed_text = "0";
  bool json = false;

  /// Worker threads; 0: one a core. Throws InvalidArgument, as `seed` does.
  std::size_t threads() const;
  std::uint64_t seed() const;
};

/// Adds the options to a command. `options` must outlive `command`.
void add_common_options(CLI::App& command, CommonOptions& options);

}  // namespace penstock::trainer::command
