// Draws: the published generator, fair, and different for different arguments.
#include <penstock/pipeline/draw.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// Philox 4x32-10 as in Salmon et al., 2011, written from the paper.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

TEST(DrawTest, GivesPhiloxOfItsCounter) {
  const std::uint64_t place = mix_lineage(0x1234567890ABCDEF, 6);
  Draw draw(0x1111222233334444, 6, 0x1234567890ABCDEF, 3);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const auto expected = philox({block, 3, static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32)},
                                 {0x33334444, 0x11112222});
    for (const std::uint32_t word : expected) EXPECT_EQ(draw.bits(), word);
  }
}

TEST(DrawTest, EveryArgumentChangesTheNumbers) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::uint64_t lineage = 0; lineage < 4; ++lineage) {
        for (std::uint32_t stage = 0; stage < 4; ++stage) {
          Draw draw(seed, epoch, lineage, stage);
          const std::uint64_t high = draw.bits();
          seen.insert((high << 32) | draw.bits());
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST(DrawTest, IntegersAreFairAndInRange) {
  for (const std::uint64_t count : {1ULL, 2ULL, 3ULL, 7ULL, 1000ULL}) {
    std::vector<double> seen(count);
    Draw draw(1, 2, 3, 4);
    const double trials = 100000;
    for (int i = 0; i < static_cast<int>(trials); ++i) {
      const std::uint64_t value = draw.below(count);
      ASSERT_LT(value, count);
      ++seen[value];
    }
    double chi = 0;
    const double expected = trials / static_cast<double>(count);
    for (const double times : seen) chi += (times - expected) * (times - expected) / expected;
    const double freedom = static_cast<double>(count - 1);
    EXPECT_LE(chi, freedom + 4 * std::sqrt(2 * freedom) + 8);
  }
  Draw draw(1, 2, 3, 4);
  std::uint64_t most = 0;
  for (int i = 0; i < 1000; ++i) most |= draw.below(std::uint64_t{1} << 60);
  EXPECT_EQ(most, (std::uint64_t{1} << 60) - 1) << "large counts use more than 32 bits";
}

TEST(DrawTest, RealNumbersHaveTheirMoments) {
  Draw draw(9, 0, 1, 0);
  double sum = 0;
  double squares = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  const int trials = 200000;
  for (int i = 0; i < trials; ++i) {
    const double u = draw.uniform(2, 4);
    ASSERT_GE(u, 2);
    ASSERT_LT(u, 4);
    sum += u;
    squares += u * u;
    const double z = draw.normal();
    normal_sum += z;
    normal_squares += z * z;
  }
  EXPECT_NEAR(sum / trials, 3, 0.01);
  EXPECT_NEAR(squares / trials - 9, 1.0 / 3, 0.02);
  EXPECT_NEAR(normal_sum / trials, 0, 0.01);
  EXPECT_NEAR(normal_squares / trials, 1, 0.02);
  int heads = 0;
  for (int i = 0; i < trials; ++i) heads += draw.chance(0.25) ? 1 : 0;
  EXPECT_NEAR(heads / static_cast<double>(trials), 0.25, 0.005);
}

TEST(DrawTest, MixingIsABijectionOfTheLineage) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t lineage = 0; lineage < 20000; ++lineage) seen.insert(mix_lineage(lineage, 17));
  EXPECT_EQ(seen.size(), 20000u);
}

}  // namespace
}  // namespace penstock
