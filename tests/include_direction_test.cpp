// The arrows between the parts, and the one home of each outside library, read from the #include lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const fs::path kSourceFolder = PENSTOCK_SOURCE_FOLDER;
constexpr std::array<std::string_view, 4> kParts{"pipeline", "cache", "gpu", "trainer"};

const std::set<std::string_view> kStandard{"algorithm",
                                           "any",
                                           "array",
                                           "atomic",
                                           "barrier",
                                           "bit",
                                           "bitset",
                                           "cassert",
                                           "cctype",
                                           "cerrno",
                                           "cfloat",
                                           "charconv",
                                           "chrono",
                                           "cinttypes",
                                           "climits",
                                           "cmath",
                                           "compare",
                                           "complex",
                                           "concepts",
                                           "condition_variable",
                                           "coroutine",
                                           "csetjmp",
                                           "csignal",
                                           "cstdarg",
                                           "cstddef",
                                           "cstdint",
                                           "cstdio",
                                           "cstdlib",
                                           "cstring",
                                           "ctime",
                                           "deque",
                                           "exception",
                                           "execution",
                                           "filesystem",
                                           "forward_list",
                                           "fstream",
                                           "functional",
                                           "future",
                                           "initializer_list",
                                           "iomanip",
                                           "ios",
                                           "iosfwd",
                                           "iostream",
                                           "istream",
                                           "iterator",
                                           "latch",
                                           "limits",
                                           "list",
                                           "locale",
                                           "map",
                                           "memory",
                                           "memory_resource",
                                           "mutex",
                                           "new",
                                           "numbers",
                                           "numeric",
                                           "optional",
                                           "ostream",
                                           "queue",
                                           "random",
                                           "ranges",
                                           "ratio",
                                           "regex",
                                           "semaphore",
                                           "set",
                                           "shared_mutex",
                                           "source_location",
                                           "span",
                                           "sstream",
                                           "stack",
                                           "stdexcept",
                                           "stop_token",
                                           "streambuf",
                                           "string",
                                           "string_view",
                                           "syncstream",
                                           "system_error",
                                           "thread",
                                           "tuple",
                                           "type_traits",
                                           "typeindex",
                                           "typeinfo",
                                           "unordered_map",
                                           "unordered_set",
                                           "utility",
                                           "valarray",
                                           "variant",
                                           "vector",
                                           "version"};

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

/// An outside library: how its headers are spelled, and which of our files may include them.
struct Library {
  std::string_view name;
  bool (*has)(std::string_view header);
  bool (*home)(std::string_view file);
};

/// The one public header that needs an outside library; who includes it links penstock::asio.
constexpr std::string_view kAsioHeader = "pipeline/asio.h";

bool is_unit(std::string_view file) { return file.ends_with(".cpp"); }
bool is_cuda_file(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  return file.ends_with(".cu") || file.ends_with(".cuh") || (file.starts_with("gpu/") && name.starts_with("cuda_")) ||
         (file.starts_with("trainer/") && name.find("cuda") != name.npos);
}

constexpr std::array<Library, 9> kLibraries{{
    {"oneTBB", [](std::string_view h) { return starts_with_any(h, {"tbb/", "oneapi/"}); },
     [](std::string_view f) { return f.starts_with("pipeline/engine/") || f == "pipeline/parallel.cpp"; }},
    {"Boost", [](std::string_view h) { return h.starts_with("boost/"); },
     [](std::string_view f) { return f.starts_with("pipeline/io/") || f == kAsioHeader; }},
    {"an image library",
     [](std::string_view h) {
       return starts_with_any(h, {"jpeglib.h", "jerror.h", "turbojpeg.h", "spng.h", "hwy/", "png.h"});
     },
     [](std::string_view f) { return f.starts_with("pipeline/image/"); }},
    {"zlib", [](std::string_view h) { return h == "zlib.h"; },
     [](std::string_view f) { return f.starts_with("pipeline/source/") && is_unit(f); }},
    {"Random123", [](std::string_view h) { return h.starts_with("Random123/"); },
     [](std::string_view f) { return f.starts_with("pipeline/") && is_unit(f); }},
    {"xxHash", [](std::string_view h) { return h == "xxhash.h"; }, is_unit},
    {"OpenBLAS", [](std::string_view h) { return starts_with_any(h, {"cblas.h", "openblas", "lapacke"}); },
     [](std::string_view f) { return f.starts_with("trainer/") && is_unit(f); }},
    {"JSON, command line and text formatting",
     [](std::string_view h) { return starts_with_any(h, {"nlohmann/", "CLI/", "fmt/", "spdlog/"}); }, is_unit},
    {"CUDA",
     [](std::string_view h) {
       return starts_with_any(h, {"cuda", "cublas", "cudnn", "nccl", "cooperative_groups", "mma.h"});
     },
     is_cuda_file},
}};

/// Headers of the operating system: wanted in units and inner folders, never in what users include.
bool is_system(std::string_view header) {
  return starts_with_any(header, {"sys/", "linux/", "netinet/", "arpa/"}) ||
         std::set<std::string_view>{"unistd.h", "fcntl.h",  "signal.h",    "pthread.h", "poll.h",
                                    "errno.h",  "dirent.h", "stdio.h",     "stdlib.h",  "string.h",
                                    "setjmp.h", "sched.h",  "immintrin.h", "time.h"}
             .contains(header);
}

/// What users include: headers at the top of a part, and of the sources and the image maps.
bool is_public(std::string_view file) {
  if (!file.ends_with(".h") || is_cuda_file(file)) return false;
  const std::size_t slashes = static_cast<std::size_t>(std::count(file.begin(), file.end(), '/'));
  return slashes == 1 || starts_with_any(file, {"pipeline/source/", "pipeline/image/"});
}

std::string_view part_of(std::string_view path) { return path.substr(0, path.find('/')); }

bool may_include(std::string_view file, std::string_view part) {
  const std::string_view from = part_of(file);
  if (file.starts_with("trainer/command/") || from == part) return true;
  if (part == "pipeline") return true;
  return from == "trainer" && part == "gpu";
}

/// What is wrong with one include line of `file`; empty when nothing is. `include` has its brackets or quotes.
std::string fault(std::string_view file, std::string_view include) {
  const std::string where = std::string(file) + " includes " + std::string(include) + ": ";
  if (include.front() != '<') return where + "an include is spelled <penstock/part/file.h>";
  const std::string_view header = include.substr(1, include.size() - 2);
  if (header.starts_with("penstock/")) {
    const std::string_view target = header.substr(9);
    if (!fs::exists(kSourceFolder / target)) return where + "there is no such file";
    if (!may_include(file, part_of(target))) {
      return where + std::string(part_of(file)) + " may not include " + std::string(part_of(target));
    }
    if (target.starts_with("trainer/command/") && !file.starts_with("trainer/command/")) {
      return where + "the program is included by nothing";
    }
    return {};
  }
  if (kStandard.contains(header)) return {};
  if (is_system(header)) return is_public(file) ? where + "a public header uses the standard library only" : "";
  for (const Library& library : kLibraries) {
    if (!library.has(header)) continue;
    if (is_public(file) && file != kAsioHeader) return where + "a public header uses the standard library only";
    return library.home(file) ? "" : where + std::string(library.name) + " has another home";
  }
  return where + "a library that no rule of this test knows";
}

std::vector<std::string> includes_of(std::istream& text) {
  std::vector<std::string> found;
  for (std::string line; std::getline(text, line);) {
    std::size_t at = line.find_first_not_of(" \t");
    if (at == line.npos || line[at] != '#') continue;
    at = line.find_first_not_of(" \t", at + 1);
    if (at == line.npos || line.compare(at, 7, "include") != 0) continue;
    const std::size_t begin = line.find_first_of("<\"", at);
    if (begin == line.npos) continue;
    const std::size_t end = line.find_first_of(line[begin] == '<' ? ">" : "\"", begin + 1);
    found.push_back(line.substr(begin, end - begin + 1));
  }
  return found;
}

TEST(IncludeDirectionTest, EveryIncludeOfTheTreeIsAllowed) {
  std::vector<std::string> faults;
  std::size_t file_count = 0;
  std::size_t include_count = 0;
  for (const std::string_view part : kParts) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSourceFolder / part)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      const std::string file = fs::relative(entry.path(), kSourceFolder);
      std::ifstream text(entry.path());
      for (const std::string& include : includes_of(text)) {
        ++include_count;
        if (std::string wrong = fault(file, include); !wrong.empty()) faults.push_back(std::move(wrong));
      }
      ++file_count;
    }
  }
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_GT(file_count, 40u) << "the tree was not found";
  EXPECT_GT(include_count, 200u);
}

TEST(IncludeDirectionTest, ReadsIncludeLines) {
  std::istringstream text("// #include <no>\n#include <vector>\n  #  include \"x.h\"  // why\nint include;\n");
  EXPECT_THAT(includes_of(text), ElementsAre("<vector>", "\"x.h\""));
}

TEST(IncludeDirectionTest, FindsEveryForbiddenArrow) {
  EXPECT_THAT(fault("pipeline/loader.h", "<penstock/gpu/device.h>"), HasSubstr("pipeline may not include gpu"));
  EXPECT_THAT(fault("cache/memory_store.cpp", "<penstock/gpu/device.h>"), HasSubstr("cache may not include gpu"));
  EXPECT_THAT(fault("gpu/device_feed.cpp", "<penstock/cache/memory_store.h>"), HasSubstr("gpu may not include cache"));
  EXPECT_THAT(fault("trainer/trainer.cpp", "<penstock/cache/memory_store.h>"),
              HasSubstr("trainer may not include cache"));
  EXPECT_THAT(fault("gpu/device.h", "<penstock/trainer/backend.h>"), HasSubstr("gpu may not include trainer"));
  EXPECT_EQ(fault("trainer/command/main.cpp", "<penstock/cache/memory_store.h>"), "");
  EXPECT_EQ(fault("trainer/trainer.cpp", "<penstock/gpu/device.h>"), "");
  EXPECT_EQ(fault("cache/memory_store.h", "<penstock/pipeline/sample_store.h>"), "");
}

TEST(IncludeDirectionTest, FindsLibrariesOutsideTheirHome) {
  EXPECT_THAT(fault("pipeline/loader.h", "<tbb/flow_graph.h>"), HasSubstr("standard library only"));
  EXPECT_THAT(fault("pipeline/source/idx.h", "<zlib.h>"), HasSubstr("standard library only"));
  EXPECT_THAT(fault("pipeline/loader.h", "<unistd.h>"), HasSubstr("standard library only"));
  EXPECT_THAT(fault("pipeline/loader.h", "<boost/asio/post.hpp>"), HasSubstr("standard library only"));
  EXPECT_THAT(fault("pipeline/asio.h", "<tbb/flow_graph.h>"), HasSubstr("oneTBB"));
  EXPECT_EQ(fault("pipeline/asio.h", "<boost/asio/post.hpp>"), "");
  EXPECT_THAT(fault("gpu/host_device.cpp", "<tbb/task_arena.h>"), HasSubstr("oneTBB has another home"));
  EXPECT_THAT(fault("gpu/host_device.cpp", "<cuda_runtime.h>"), HasSubstr("CUDA has another home"));
  EXPECT_THAT(fault("pipeline/engine/graph.h", "<nlohmann/json.hpp>"), HasSubstr("has another home"));
  EXPECT_THAT(fault("pipeline/draw.cpp", "<mystery.h>"), HasSubstr("no rule of this test knows"));
  EXPECT_EQ(fault("pipeline/engine/graph.h", "<tbb/flow_graph.h>"), "");
  EXPECT_EQ(fault("gpu/cuda_device.cpp", "<cuda_runtime.h>"), "");
  EXPECT_EQ(fault("pipeline/source/idx.cpp", "<zlib.h>"), "");
}

TEST(IncludeDirectionTest, FindsOtherSpellings) {
  EXPECT_THAT(fault("pipeline/loader.h", "\"batch.h\""), HasSubstr("spelled <penstock/part/file.h>"));
  EXPECT_THAT(fault("pipeline/loader.h", "<penstock/pipeline/no_such.h>"), HasSubstr("no such file"));
}

}  // namespace
