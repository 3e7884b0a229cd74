// Names of checkpoints sort by age, so the folder itself is the list; `last` and `best` are one-line files with a name.
#include <penstock/trainer/run_folder.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <system_error>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/whole_file.h>

namespace penstock::trainer {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".safetensors";
constexpr std::size_t kKept = 2;

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kSuffix && entry.path().filename().string().starts_with("epoch-")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

fs::path pointed(const fs::path& pointer) {
  std::error_code error;
  if (!fs::is_regular_file(pointer, error)) return {};
  std::string name = read_text(pointer);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  if (name.empty() || name.find('/') != std::string::npos) {
    throw InvalidArgument("\"" + pointer.string() + "\" does not name a checkpoint");
  }
  return pointer.parent_path() / name;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("cannot make folder \"" + folder.string() + "\": " + error.message());
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

}  // namespace

RunFolder::RunFolder(fs::path folder, const fs::path& resumed_file) : folder_(std::move(folder)) {
  std::error_code error;
  const bool holds_run = fs::exists(folder_ / "config.json", error) || fs::exists(checkpoints(), error);
  if (holds_run && !(!resumed_file.empty() && is_same_file(resumed_file.parent_path(), checkpoints()))) {
    throw InvalidArgument("run folder \"" + folder_.string() + "\" holds a run already: resume it, or name another");
  }
}

void RunFolder::begin(const std::string& config_json, const std::vector<std::string>& classes,
                      const gpu::MemoryPlan& plan) {
  make_folder(checkpoints());
  replace_file(folder_ / "config.json", config_json + "\n");
  std::string names;
  for (const std::string& name : classes) names += name + "\n";
  replace_file(folder_ / "classes.txt", names);
  replace_file(folder_ / "plan.json", plan_to_json(plan) + "\n");
}

void RunFolder::write_rows(const std::vector<EpochRow>& rows) {
  std::string text;
  for (const EpochRow& row : rows) text += row_to_json(row) + "\n";
  replace_file(folder_ / "metrics.jsonl", text);
}

fs::path RunFolder::checkpoint_file(std::uint64_t epoch, std::optional<std::uint64_t> epoch_steps) const {
  std::array<char, 64> name{};
  if (epoch_steps) {
    std::snprintf(name.data(), name.size(), "epoch-%06llu-step-%010llu", static_cast<unsigned long long>(epoch),
                  static_cast<unsigned long long>(*epoch_steps));
  } else {
    std::snprintf(name.data(), name.size(), "epoch-%06llu", static_cast<unsigned long long>(epoch));
  }
  return checkpoints() / (std::string(name.data()) + kSuffix);
}

void RunFolder::set_last(const fs::path& file) {
  replace_file(checkpoints() / "last", file.filename().string() + "\n");
  std::vector<fs::path> files = checkpoints_in(checkpoints());
  const fs::path best = pointed(checkpoints() / "best");
  // Those after `file` are of a run that was resumed before them: their future was given up.
  const auto end = std::upper_bound(files.begin(), files.end(), file);
  const auto begin = end - std::min<std::ptrdiff_t>(kKept, end - files.begin());
  for (auto at = files.begin(); at != files.end(); ++at) {
    if ((at >= begin && at < end) || *at == best) continue;
    std::error_code error;
    fs::remove(*at, error);
  }
}

void RunFolder::set_best(const fs::path& file) {
  replace_file(checkpoints() / "best", file.filename().string() + "\n");
}

fs::path find_checkpoint(const fs::path& place) {
  std::error_code error;
  if (fs::is_directory(place, error)) {
    for (const fs::path& folder : {place / "checkpoints", place}) {
      fs::path file = pointed(folder / "last");
      if (!file.empty()) return file;
      const std::vector<fs::path> files = checkpoints_in(folder);  // killed before `last` was written
      if (!files.empty()) return files.back();
    }
    throw InvalidArgument("\"" + place.string() + "\" holds no checkpoint to resume");
  }
  if (!fs::is_regular_file(place, error)) throw InvalidArgument("there is no checkpoint \"" + place.string() + "\"");
  return place;
}

fs::path checkpoint_before(const fs::path& file) {
  const std::vector<fs::path> files = checkpoints_in(file.parent_path());
  const auto at = std::lower_bound(files.begin(), files.end(), file);
  return at == files.begin() ? fs::path() : *(at - 1);
}

}  // namespace penstock::trainer
