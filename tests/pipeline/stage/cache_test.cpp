// Where a cache may stand.
#include <gtest/gtest.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

std::string cached(const Pipeline& pipeline) {
  return refusal([&] { static_cast<void>(pipeline.cache(std::make_shared<KeepAllStore>())); });
}
std::string not_one_sample(const std::string& stage) {
  return "cache: after " + stage +
         " an element is no longer one sample of its source, which is what it is kept by; move it before";
}

const auto kPositive = [](std::int64_t x) { return x > 0; };

TEST(CacheStageTest, StandsAfterStagesThatOnlySelect) {
  const Pipeline some = numbers(9).filter("x", kPositive);
  EXPECT_EQ(cached(some), "nothing was thrown");
  EXPECT_EQ(cached(some.shuffle({.buffer = 3}).repeat(2).take(3).skip(1).shard(0, 2)), "nothing was thrown");
  EXPECT_EQ(cached(numbers(9).shuffle().prefetch(2)), "nothing was thrown");
}

TEST(CacheStageTest, IsRefusedWhereAnElementIsNoSampleOfItsSource) {
  EXPECT_EQ(cached(numbers(9).window({.size = 2})), not_one_sample("window"));
  EXPECT_EQ(cached(numbers(9).batch(2)), not_one_sample("batch"));
  EXPECT_EQ(cached(numbers(9).padded_batch(2)), not_one_sample("padded_batch"));
  EXPECT_EQ(cached(numbers(9).batch(2).unbatch()), not_one_sample("batch"));
  EXPECT_EQ(cached(list_pipeline().unbatch()), not_one_sample("unbatch"));
  EXPECT_EQ(cached(numbers(9).filter("x", [](std::int64_t, Draw&) { return true; })),
            "cache: after the random stage \"filter(x)\" every epoch would see the same variant; move it before");
}

}  // namespace
}  // namespace penstock
