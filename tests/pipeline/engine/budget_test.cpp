// Shares and charges: the limit holds at every moment, and everything comes back.
#include <penstock/pipeline/engine/budget.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

TEST(BudgetTest, RefusesAShareWithTheSums) {
  const auto budget = std::make_shared<Budget>(1000);
  const auto first = BudgetShare::reserve(budget, 700, "a");
  try {
    BudgetShare::reserve(budget, 301, "3 batches");
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "loader: the budget of 1000 bytes is too small: this loader needs 301 bytes (3 batches), other loaders "
        "have 700 bytes; give the runtime at least 1001 bytes");
  }
  EXPECT_NE(BudgetShare::reserve(budget, 300, "b"), nullptr);
}

TEST(BudgetTest, GuaranteedAndSharedBytesAreApart) {
  const auto budget = std::make_shared<Budget>(1000);
  const auto a = BudgetShare::reserve(budget, 300, "a");
  const auto b = BudgetShare::reserve(budget, 300, "b");
  const Charge shared = a->try_shared(400);
  EXPECT_TRUE(shared);
  EXPECT_FALSE(b->try_shared(1));
  const Charge mine = b->try_guaranteed(300);
  EXPECT_TRUE(mine);
  EXPECT_FALSE(b->try_guaranteed(1));
  EXPECT_TRUE(a->has_room(300));
  EXPECT_FALSE(a->has_room(301));
  EXPECT_EQ(budget->current(), 700u);
}

TEST(BudgetTest, AChargeMovesAndGivesBackWhatItHeld) {
  const auto budget = std::make_shared<Budget>(1000);
  const auto share = BudgetShare::reserve(budget, 100, "a");
  Charge first = share->try_guaranteed(60);
  Charge second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_TRUE(second);
  EXPECT_EQ(budget->current(), 60u);
  second = share->try_shared(500);
  EXPECT_EQ(budget->current(), 500u);
  EXPECT_TRUE(share->try_guaranteed(100));
  second = {};
  EXPECT_EQ(budget->current(), 0u);
  EXPECT_EQ(budget->peak(), 600u);
}

TEST(BudgetTest, AShareEndsWithItsLastCharge) {
  const auto budget = std::make_shared<Budget>(1000);
  auto share = BudgetShare::reserve(budget, 900, "a");
  Charge charge = share->try_guaranteed(10);
  share.reset();
  EXPECT_EQ(budget->guaranteed(), 900u);
  charge = {};
  EXPECT_EQ(budget->guaranteed(), 0u);
}

TEST(BudgetTest, ANewShareWaitsForSharedBytesRatherThanExceedTheLimit) {
  const auto budget = std::make_shared<Budget>(1000);
  const auto a = BudgetShare::reserve(budget, 100, "a");
  Charge shared = a->try_shared(800);
  const auto b = BudgetShare::reserve(budget, 800, "b");
  EXPECT_FALSE(b->try_guaranteed(300));
  EXPECT_FALSE(b->has_room(300));
  shared = {};
  EXPECT_TRUE(b->try_guaranteed(800));
}

TEST(BudgetTest, ManyThreadsNeverExceedTheLimit) {
  const auto budget = std::make_shared<Budget>(1000);
  std::vector<std::shared_ptr<BudgetShare>> shares;
  for (int i = 0; i < 4; ++i) shares.push_back(BudgetShare::reserve(budget, 150, "x"));
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20000; ++i) {
        Charge a = shares[t]->try_shared(i % 300);
        Charge b = shares[t]->try_guaranteed(i % 151);
        if (a && b) ++granted;
        if (budget->current() > 1000) std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(granted, 0);
  EXPECT_LE(budget->peak(), 1000u);
  EXPECT_EQ(budget->current(), 0u);
  for (const auto& share : shares) EXPECT_TRUE(share->try_guaranteed(150));
  EXPECT_TRUE(shares[0]->try_shared(400));
}

}  // namespace
}  // namespace penstock::engine
