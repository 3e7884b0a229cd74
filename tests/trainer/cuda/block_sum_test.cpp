// Barriers and shared memory give the same bits on every rig.
#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include "trainer/cuda/agreement.h"
#include "trainer/cuda/block_sum.h"

namespace penstock::trainer::test {
namespace {

std::vector<float> tree_sums(const std::vector<float>& values) {
  std::vector<float> sums;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlockSumThreads) {
    std::vector<float> part(kBlockSumThreads, 0.0F);
    for (std::size_t i = 0; i < kBlockSumThreads && begin + i < values.size(); ++i) part[i] = values[begin + i];
    for (std::size_t half = kBlockSumThreads / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) part[i] += part[i + half];
    }
    sums.push_back(part[0]);
  }
  return sums;
}

TEST(BlockSumTest, SumsInATree) {
  PENSTOCK_NEEDS_RIGS();
  for (const std::unique_ptr<Rig>& rig : make_rigs()) {
    for (const std::int64_t count : {1, 127, 128, 129, 1000}) {
      SCOPED_TRACE(testing::Message() << rig->name() << " " << count);
      const std::vector<float> values = random_floats(count, 5);
      std::vector<float> sums = tree_sums(values);
      std::vector<std::byte> bytes(values.size() * sizeof(float));
      std::memcpy(bytes.data(), values.data(), bytes.size());
      const auto* const in = static_cast<const float*>(rig->upload(bytes));
      auto* const out = static_cast<float*>(rig->upload(std::vector<std::byte>(sums.size() * sizeof(float))));
      rig->run([&](NativeStream stream) { block_sum(static_cast<cudaStream_t>(stream), count, in, out); });
      const std::vector<std::byte> got = rig->download(out, sums.size() * sizeof(float));
      EXPECT_EQ(std::memcmp(got.data(), sums.data(), got.size()), 0);
    }
  }
}

}  // namespace
}  // namespace penstock::trainer::test
