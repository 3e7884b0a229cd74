#include <atomic>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/memory_accounts.h>

namespace penstock::gpu {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

MATCHER_P3(Row, path, current, peak, "") {
  return arg.path == path && arg.current_bytes == std::uint64_t(current) && arg.peak_bytes == std::uint64_t(peak);
}

TEST(MemoryAccountsTest, ChargesAccountParentsAndPhase) {
  MemoryAccounts accounts;
  const MemoryAccount ring = accounts.account("device/train/ring", "train");
  const MemoryAccount model = accounts.account("device/model");
  {
    const Charge slots = ring.charge(5, "slots");
    const Charge weights = model.charge(7, "weights");
    EXPECT_EQ(slots.bytes(), 5);
    EXPECT_THAT(accounts.figures(), ElementsAre(Row("train", 5, 5), Row("device", 12, 12), Row("device/model", 7, 7),
                                                Row("device/train", 5, 5), Row("device/train/ring", 5, 5)));
  }
  EXPECT_THAT(accounts.figures(), ElementsAre(Row("train", 0, 5), Row("device", 0, 12), Row("device/model", 0, 7),
                                              Row("device/train", 0, 5), Row("device/train/ring", 0, 5)));
  accounts.reset_peaks();
  EXPECT_EQ(accounts.account("device").figures().peak_bytes, 0);
}

TEST(MemoryAccountsTest, LeasesCountForThePhaseOnly) {
  MemoryAccounts accounts;
  const MemoryAccount ring = accounts.account("device/train/ring", "train");
  const Charge slots = ring.charge(5, "slots");
  const Charge step = accounts.phase("train").lease(20, "step");
  EXPECT_EQ(accounts.phase("train").figures().current_bytes, 25);
  EXPECT_EQ(accounts.account("device").figures().current_bytes, 5);
}

TEST(MemoryAccountsTest, ChildrenBelongToTheirParentsPhase) {
  MemoryAccounts accounts;
  accounts.account("device/train", "train");
  const Charge charge = accounts.account("device/train/augment").charge(3, "noise");
  EXPECT_EQ(accounts.phase("train").figures().current_bytes, 3);
}

TEST(MemoryAccountsTest, RefusalSaysWhatForAndWhatIsInUse) {
  MemoryAccounts accounts;
  const MemoryAccount ring = accounts.account("device/val/ring", "val");
  accounts.set_cap("device/val/ring", 8 * kMiB);
  const Charge held = ring.charge(6 * kMiB, "slots");
  try {
    const Charge more = ring.charge(3 * kMiB, "slots");
    FAIL() << "nothing was thrown";
  } catch (const DeviceMemoryLimit& limit) {
    EXPECT_STREQ(limit.what(), "device/val/ring: 3.00 MiB for \"slots\" do not fit: 6.00 MiB of 8.00 MiB are in use");
    EXPECT_EQ(limit.account(), "device/val/ring");
    EXPECT_EQ(limit.tag(), "slots");
    EXPECT_EQ(limit.requested_bytes(), 3 * kMiB);
    EXPECT_EQ(limit.current_bytes(), 6 * kMiB);
    EXPECT_EQ(limit.cap_bytes(), 8 * kMiB);
  }
}

TEST(MemoryAccountsTest, RefusalNamesTheWallAndWhoAsked) {
  MemoryAccounts accounts;
  const MemoryAccount ring = accounts.account("device/val/ring", "val");
  accounts.set_cap("device", 8);
  EXPECT_THAT([&] { static_cast<void>(ring.charge(9, "slots")); },
              ThrowsMessage<DeviceMemoryLimit>(
                  "device: 9 B for \"slots\" of device/val/ring do not fit: 0 B of 8 B are in use"));
  accounts.set_cap("device", kNoCap);
  accounts.set_cap("val", 4);
  EXPECT_THAT(
      [&] { static_cast<void>(ring.charge(5, "slots")); },
      ThrowsMessage<DeviceMemoryLimit>("val: 5 B for \"slots\" of device/val/ring do not fit: 0 B of 4 B are in use"));
  EXPECT_THAT([&] { static_cast<void>(accounts.phase("val").lease(5, "step")); },
              ThrowsMessage<DeviceMemoryLimit>("val: 5 B for \"step\" do not fit: 0 B of 4 B are in use"));
}

TEST(MemoryAccountsTest, RefusedChargesLeaveNoTrace) {
  MemoryAccounts accounts;
  const MemoryAccount ring = accounts.account("device/train/ring", "train");
  accounts.set_cap("train", 10);
  const Charge held = ring.charge(10, "slots");
  EXPECT_THROW(static_cast<void>(ring.charge(1, "one more")), DeviceMemoryLimit);
  EXPECT_THROW(static_cast<void>(ring.charge(kNoCap, "a sum that overflows")), DeviceMemoryLimit);
  EXPECT_THAT(accounts.figures(), ElementsAre(Row("train", 10, 10), Row("device", 10, 10), Row("device/train", 10, 10),
                                              Row("device/train/ring", 10, 10)));
}

TEST(MemoryAccountsTest, FillsACapExactly) {
  MemoryAccounts accounts;
  const MemoryAccount account = accounts.account("device/model");
  accounts.set_cap("device", 10);
  const Charge nothing = account.charge(0, "nothing");
  const Charge all = account.charge(10, "all");
  const Charge no_more = account.charge(0, "still nothing");
  EXPECT_FALSE(nothing);
  EXPECT_TRUE(all);
  EXPECT_EQ(account.figures().current_bytes, 10);
}

TEST(MemoryAccountsTest, MovedChargesAreGivenBackOnce) {
  MemoryAccounts accounts;
  const MemoryAccount account = accounts.account("device/model");
  Charge first = account.charge(3, "a");
  Charge second(std::move(first));
  EXPECT_FALSE(first);
  EXPECT_EQ(second.bytes(), 3);
  EXPECT_EQ(account.figures().current_bytes, 3);
  Charge third = account.charge(4, "b");
  third = std::move(second);
  EXPECT_EQ(account.figures().current_bytes, 3);
  EXPECT_FALSE(second);
  third = Charge();
  EXPECT_EQ(account.figures().current_bytes, 0);
}

TEST(MemoryAccountsTest, ChargesOutliveTheLedgersHandle) {
  Charge charge;
  MemoryAccount account;
  {
    MemoryAccounts accounts;
    account = accounts.account("device/model");
    charge = account.charge(3, "a");
  }
  EXPECT_EQ(account.figures().current_bytes, 3);
  charge = Charge();
  EXPECT_EQ(account.figures().current_bytes, 0);
}

TEST(MemoryAccountsTest, RefusesBadNamesAndCaps) {
  MemoryAccounts accounts;
  for (const char* path : {"", "/", "device/", "/device", "device//ring"}) {
    EXPECT_THAT([&] { accounts.account(path); },
                ThrowsMessage<InvalidArgument>(HasSubstr("a part of the path is empty")))
        << path;
  }
  EXPECT_THROW(accounts.phase(""), InvalidArgument);
  EXPECT_THROW(accounts.phase("a/b"), InvalidArgument);
  EXPECT_THAT([&] { accounts.set_cap("device/nowhere", 1); },
              ThrowsMessage<InvalidArgument>("no account or phase \"device/nowhere\""));
  const Charge charge = accounts.account("device/model").charge(3, "a");
  EXPECT_THAT([&] { accounts.set_cap("device", 2); },
              ThrowsMessage<InvalidArgument>("device: a cap of 2 B is below the 3 B in use"));
  EXPECT_THAT([&] { accounts.account("device/model", "train"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("cannot change to phase \"train\"")));
}

TEST(MemoryAccountsTest, TableHasARowForEachAccount) {
  MemoryAccounts accounts;
  accounts.phase("train");
  accounts.account("device/model");
  accounts.set_cap("device", 8 * kMiB);
  const Charge charge = accounts.account("device/model").charge(3 * kMiB, "weights");
  EXPECT_EQ(accounts.table(),
            "account                           current         peak          cap\n"
            "train                                 0 B          0 B            -\n"
            "device                           3.00 MiB     3.00 MiB     8.00 MiB\n"
            "device/model                     3.00 MiB     3.00 MiB            -\n");
}

TEST(MemoryAccountsTest, IsNeverAboveACapUnderManyThreads) {
  constexpr std::uint64_t kDeviceCap = 1000;
  constexpr std::uint64_t kPhaseCap = 700;
  MemoryAccounts accounts;
  const MemoryAccount leaves[] = {accounts.account("device/train/ring", "train"),
                                  accounts.account("device/val/ring", "val"), accounts.account("device/model")};
  accounts.set_cap("device", kDeviceCap);
  accounts.set_cap("train", kPhaseCap);
  accounts.set_cap("device/val/ring", 300);
  std::atomic<std::uint64_t> held{0};  // never more than what is charged
  std::atomic<std::uint64_t> most_held{0};
  std::atomic<bool> above{false};
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      for (const AccountFigures& row : accounts.figures()) {
        if (row.current_bytes > row.cap_bytes || row.peak_bytes > row.cap_bytes) above = true;
      }
    }
  });
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<Charge, std::uint64_t>> mine;
      for (int i = 0; i < 3000; ++i) {
        if (!mine.empty() && random() % 2 == 0) {
          const std::size_t at = random() % mine.size();
          held.fetch_sub(mine[at].second);
          mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
          continue;
        }
        const std::uint64_t bytes = random() % 200;
        try {
          mine.emplace_back(leaves[random() % 3].charge(bytes, "random"), bytes);
          const std::uint64_t now = held.fetch_add(bytes) + bytes;
          if (now > kDeviceCap) above = true;
          std::uint64_t most = most_held.load();
          while (most < now && !most_held.compare_exchange_weak(most, now)) {
          }
        } catch (const DeviceMemoryLimit&) {
        }
      }
      for (const auto& [charge, bytes] : mine) held.fetch_sub(bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  watcher.join();
  EXPECT_FALSE(above);
  for (const AccountFigures& row : accounts.figures()) {
    EXPECT_EQ(row.current_bytes, 0) << row.path;
    EXPECT_GT(row.peak_bytes, 0) << row.path;
  }
  EXPECT_GE(accounts.account("device").figures().peak_bytes, most_held);
  for (const MemoryAccount& leaf : leaves) EXPECT_NO_THROW(static_cast<void>(leaf.charge(300, "all is free again")));
}

// Bytes that a charge holds on its way to a refusal must not refuse another, nor show up in a peak.
TEST(MemoryAccountsTest, HopelessChargesDoNotRefuseOthers) {
  MemoryAccounts accounts;
  const MemoryAccount hopeless = accounts.account("device/train/ring", "train");
  const MemoryAccount modest = accounts.account("device/train/augment");
  accounts.set_cap("train", 5);
  accounts.set_cap("device", 100);
  std::atomic<bool> stop{false};
  std::atomic<int> refused{0};
  std::thread hopeless_thread([&] {
    while (!stop) {
      try {
        const Charge charge = hopeless.charge(60, "too much for train");
      } catch (const DeviceMemoryLimit&) {
        ++refused;
      }
    }
  });
  for (int i = 0; i < 20000 || refused == 0; ++i) {
    ASSERT_NO_THROW(static_cast<void>(modest.charge(60, "fits")));
  }
  stop = true;
  hopeless_thread.join();
  EXPECT_EQ(accounts.account("device").figures().peak_bytes, 60);
  EXPECT_EQ(accounts.phase("train").figures().peak_bytes, 0);
}

// Several threads take all there is, again and again: one of them always has it, and no sum passes the cap.
TEST(MemoryAccountsTest, CompetitorsForTheLastByteAlwaysGetOn) {
  MemoryAccounts accounts;
  const MemoryAccount leaves[] = {accounts.account("device/train/ring", "train"),
                                  accounts.account("device/val/ring", "val")};
  accounts.set_cap("device", 10);
  std::atomic<int> inside{0};
  std::atomic<int> charged{0};
  std::atomic<bool> together{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        try {
          const Charge charge = leaves[t % 2].charge(10, "all");
          if (inside.fetch_add(1) != 0) together = true;
          ++charged;
          inside.fetch_sub(1);
        } catch (const DeviceMemoryLimit&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(together);
  EXPECT_GT(charged, 0);
  EXPECT_EQ(accounts.account("device").figures().current_bytes, 0);
}

}  // namespace
}  // namespace penstock::gpu
