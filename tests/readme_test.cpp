// The README's program is tests/readme_example.cpp, and does what the README says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/jpeg_bytes.h"
#include "support/source_temp_folder.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ReadmeTest, ShowsTheExampleAsItIsBuilt) {
  const std::string source = read_file(PENSTOCK_SOURCE_FOLDER "/tests/readme_example.cpp");
  ASSERT_THAT(source, HasSubstr("int main"));
  EXPECT_THAT(read_file(PENSTOCK_SOURCE_FOLDER "/README.md"), HasSubstr("\n```cpp\n" + source + "```\n"));
}

TEST(ReadmeTest, ExampleDeliversEveryBatchOfTwoEpochs) {
  const test::TempFolder folder;
  std::vector<std::uint8_t> pixels(80 * 90 * 3);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  for (int i = 0; i < 5; ++i) {
    folder.write("cat/" + std::to_string(i) + ".jpg", test::jpeg_bytes(pixels, 80, 90, 3));
    folder.write("dog/" + std::to_string(i) + ".jpg", test::jpeg_bytes(pixels, 80, 90, 3));
  }
  const test::ChildResult result = test::run_child({PENSTOCK_README_EXAMPLE, folder.path()}, folder.path());
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 4) << result.out;
  EXPECT_THAT(result.out, StartsWith("epoch 1, image [4, 64, 64, 3], label "));
  EXPECT_THAT(result.out, HasSubstr("\nepoch 2, image [4, 64, 64, 3], label "));
  EXPECT_THAT(result.out, HasSubstr("label 1 from " + folder.path() + "/dog/"));
}

TEST(ReadmeTest, ExampleSaysWhatIsWrong) {
  const test::TempFolder folder;
  const test::ChildResult result = test::run_child({PENSTOCK_README_EXAMPLE, folder.path("none")}, folder.path());
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr(folder.path("none")));
}

}  // namespace
}  // namespace penstock
