// Permutations are bijections with an inverse, fair over keys, and the same for the same key.
#include <penstock/pipeline/order/permutation.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::order {
namespace {

std::vector<std::uint64_t> listed(const Permutation& permutation) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t slot = 0; slot < permutation.size(); ++slot) all.push_back(permutation.index_at(slot));
  return all;
}

TEST(PermutationTest, IsABijectionWithInverseAroundTheChangeOfMethod) {
  for (const std::uint64_t size :
       {1ULL, 2ULL, 3ULL, 17ULL, 4095ULL, 4096ULL, 4097ULL, 5000ULL, 8191ULL, 8192ULL, 8193ULL, 70001ULL}) {
    const Permutation permutation(size, 99);
    std::vector<std::uint64_t> all = listed(permutation);
    for (std::uint64_t slot = 0; slot < size; ++slot) ASSERT_EQ(permutation.slot_of(all[slot]), slot) << size;
    std::sort(all.begin(), all.end());
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(all[i], i) << size;
  }
}

TEST(PermutationTest, HasAnInverseForSizesThatCannotBeListed) {
  const std::uint64_t size = (std::uint64_t{1} << 40) + 12345;
  const Permutation permutation(size, 5);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t slot = i * 1'000'003'777ULL % size;
    const std::uint64_t index = permutation.index_at(slot);
    ASSERT_LT(index, size);
    ASSERT_EQ(permutation.slot_of(index), slot);
  }
}

TEST(PermutationTest, DependsOnTheKeyAlone) {
  for (const std::uint64_t size : {100ULL, 10000ULL}) {
    EXPECT_EQ(listed(Permutation(size, 7)), listed(Permutation(size, 7)));
    EXPECT_NE(listed(Permutation(size, 7)), listed(Permutation(size, 8)));
  }
}

TEST(PermutationTest, AllOrdersOfSmallSizesAreEquallyLikely) {
  // 0.9999 quantiles of chi-square by Wilson and Hilferty's formula: a fair generator fails one case in 10,000.
  for (const std::uint64_t size : {2ULL, 3ULL, 4ULL, 5ULL}) {
    std::uint64_t orders = 1;
    for (std::uint64_t i = 2; i <= size; ++i) orders *= i;
    const std::uint64_t trials = orders * 500;
    std::map<std::vector<std::uint64_t>, std::uint64_t> seen;
    for (std::uint64_t key = 0; key < trials; ++key) ++seen[listed(Permutation(size, key))];
    ASSERT_EQ(seen.size(), orders);
    double chi = 0;
    for (const auto& [order, count] : seen)
      chi += (static_cast<double>(count) - 500) * (static_cast<double>(count) - 500) / 500;
    const double freedom = static_cast<double>(orders - 1);
    const double a = 2.0 / (9.0 * freedom);
    const double root = 1.0 - a + 3.719 * std::sqrt(a);
    EXPECT_LT(chi, freedom * root * root * root) << "size " << size;
  }
}

template <class P>
void expect_fair_places(std::uint64_t size, std::uint64_t trials) {
  std::vector<double> counts(size * size);
  for (std::uint64_t key = 0; key < trials; ++key) {
    const P permutation(size, key);
    for (std::uint64_t slot = 0; slot < size; ++slot) ++counts[slot * size + permutation.index_at(slot)];
  }
  const double expected = static_cast<double>(trials) / static_cast<double>(size);
  double chi = 0;
  for (const double count : counts) chi += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>((size - 1) * (size - 1));
  const double a = 2.0 / (9.0 * freedom);
  const double root = 1.0 - a + 3.719 * std::sqrt(a);
  EXPECT_LT(chi, freedom * root * root * root) << "size " << size;
}

TEST(PermutationTest, EveryIndexIsEquallyLikelyInEverySlot) {
  for (std::uint64_t size = 2; size <= 8; ++size) expect_fair_places<Permutation>(size, 4000 * size);
}

TEST(PermutationTest, FeistelRoundsAreEnough) {
  for (const std::uint64_t size : {13ULL, 32ULL, 100ULL}) expect_fair_places<FeistelPermutation>(size, 4000 * size);
}

}  // namespace
}  // namespace penstock::order
