#include <penstock/cache/memory_store.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>

namespace penstock::cache {
namespace {

constexpr std::uint64_t kOverhead = MemoryStore::kEntryOverheadBytes;

Sample sample_of(std::uint64_t id, std::size_t bytes) {
  std::vector<std::uint8_t> values(bytes, static_cast<std::uint8_t>(id * 37 + 1));
  return Sample({"x"}, {Tensor::copy_of<std::uint8_t>(std::span<const std::uint8_t>(values),
                                                      {static_cast<std::int64_t>(bytes)})});
}

// Waiters that keep what they were called with.
struct Calls {
  std::vector<std::exception_ptr> errors;
  SampleStore::Waiter waiter() {
    return [this](std::exception_ptr error) { errors.push_back(error); };
  }
};

SampleStore::Waiter nobody() {
  return [](std::exception_ptr) { FAIL() << "called though it does not wait"; };
}

Lookup ask(SampleStore& store, std::uint64_t key, SampleStore::Waiter waiter = nobody()) {
  Sample hit;
  return store.begin({0, key}, hit, std::move(waiter));
}

void load(SampleStore& store, std::uint64_t key, std::size_t bytes) {
  ASSERT_EQ(ask(store, key), Lookup::kOwner);
  store.commit({0, key}, sample_of(key, bytes));
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

std::string refusal_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST(MemoryStoreTest, KeepsWhatWasCommitted) {
  const auto store = memory(1 << 20);
  load(*store, 1, 100);
  Sample hit;
  ASSERT_EQ(store->begin({0, 1}, hit, nobody()), Lookup::kHit);
  EXPECT_EQ(hit.names(), std::vector<std::string>{"x"});
  EXPECT_EQ(hit["x"].shape(), Shape{100});
  EXPECT_EQ(hit["x"].view<std::uint8_t>()[99], 38);
  EXPECT_EQ(ask(*store, 2), Lookup::kOwner);
  const MemoryStatistics counts = store->statistics();
  EXPECT_EQ(counts.hits, 1u);
  EXPECT_EQ(counts.misses, 2u);
  EXPECT_EQ(counts.kept, 1u);
  EXPECT_EQ(counts.refused, 0u);
  EXPECT_EQ(counts.bytes, 100 + kOverhead);
  EXPECT_EQ(store->capacity_bytes(), std::uint64_t{1} << 20);
}

TEST(MemoryStoreTest, SharesTheTensors) {
  const auto store = memory(1 << 20);
  const Sample sample = sample_of(1, 10);
  ASSERT_EQ(ask(*store, 1), Lookup::kOwner);
  store->commit({0, 1}, sample);
  Sample hit;
  ASSERT_EQ(store->begin({0, 1}, hit, nobody()), Lookup::kHit);
  EXPECT_EQ(hit["x"].data(), sample["x"].data());
}

TEST(MemoryStoreTest, BothHalvesOfTheKeyCount) {
  const auto store = memory(1 << 20);
  Sample hit;
  EXPECT_EQ(store->begin({1, 2}, hit, nobody()), Lookup::kOwner);
  EXPECT_EQ(store->begin({2, 1}, hit, nobody()), Lookup::kOwner);
  EXPECT_EQ(store->begin({1, 1}, hit, nobody()), Lookup::kOwner);
}

TEST(MemoryStoreTest, BudgetIsExactAndWhatGotInStays) {
  const auto store = memory(3 * (100 + kOverhead));
  for (std::uint64_t key = 0; key < 3; ++key) load(*store, key, 100);
  EXPECT_EQ(store->statistics().bytes, store->capacity_bytes());
  load(*store, 3, 0);  // full to the last byte
  EXPECT_EQ(store->statistics().refused, 1u);
  EXPECT_EQ(store->statistics().kept, 3u);
  for (std::uint64_t key = 0; key < 3; ++key) EXPECT_EQ(ask(*store, key), Lookup::kHit);
  EXPECT_EQ(ask(*store, 3), Lookup::kOwner);
}

TEST(MemoryStoreTest, OneByteTooLargeIsRefusedAndSmallerOnesStillFit) {
  const auto store = memory(1000 + kOverhead);
  load(*store, 1, 1001);
  EXPECT_EQ(store->statistics().refused, 1u);
  EXPECT_EQ(store->statistics().bytes, 0u);
  load(*store, 1, 1000);
  EXPECT_EQ(ask(*store, 1), Lookup::kHit);
  EXPECT_EQ(store->statistics().bytes, 1000 + kOverhead);
}

TEST(MemoryStoreTest, CapacityZeroKeepsNothingButLetsOneLoadRun) {
  const auto store = memory(0);
  Calls calls;
  ASSERT_EQ(ask(*store, 1), Lookup::kOwner);
  ASSERT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
  store->commit({0, 1}, sample_of(1, 0));
  ASSERT_EQ(calls.errors.size(), 1u);
  EXPECT_EQ(calls.errors[0], nullptr);
  EXPECT_EQ(ask(*store, 1), Lookup::kOwner);  // the first that asks again
  EXPECT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
  EXPECT_EQ(store->statistics().refused, 1u);
}

TEST(MemoryStoreTest, WaitersOfACommitAskAgainAndHit) {
  const auto store = memory(1 << 20);
  ASSERT_EQ(ask(*store, 1), Lookup::kOwner);
  int hits = 0;
  for (int i = 0; i < 3; ++i) {
    // Asking from inside a waiter would stand still if a lock were held.
    ASSERT_EQ(ask(*store, 1,
                  [&](std::exception_ptr error) {
                    EXPECT_EQ(error, nullptr);
                    hits += ask(*store, 1) == Lookup::kHit ? 1 : 0;
                  }),
              Lookup::kPending);
  }
  EXPECT_EQ(hits, 0);
  store->commit({0, 1}, sample_of(1, 10));
  EXPECT_EQ(hits, 3);
  EXPECT_EQ(store->statistics().waits, 3u);
}

TEST(MemoryStoreTest, FailedLoadFailsForAllWhoWait) {
  const auto store = memory(1 << 20);
  Calls calls;
  ASSERT_EQ(ask(*store, 1), Lookup::kOwner);
  ASSERT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
  ASSERT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
  store->fail({0, 1}, std::make_exception_ptr(DataError(ErrorKind::kCorrupt, "bad bytes")));
  ASSERT_EQ(calls.errors.size(), 2u);
  EXPECT_EQ(text_of(calls.errors[0]), "bad bytes");
  EXPECT_EQ(text_of(calls.errors[1]), "bad bytes");
  EXPECT_EQ(ask(*store, 1), Lookup::kOwner);  // a failure is not kept
}

TEST(MemoryStoreTest, AbandonedLoadPassesToTheFirstWhoAsks) {
  const auto store = memory(1 << 20);
  Calls calls;
  ASSERT_EQ(ask(*store, 1), Lookup::kOwner);
  ASSERT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
  ASSERT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
  store->abandon({0, 1});
  ASSERT_EQ(calls.errors.size(), 2u);
  EXPECT_EQ(calls.errors[0], nullptr);
  EXPECT_EQ(calls.errors[1], nullptr);
  EXPECT_EQ(ask(*store, 1), Lookup::kOwner);
  EXPECT_EQ(ask(*store, 1, calls.waiter()), Lookup::kPending);
}

TEST(MemoryStoreTest, EndingALoadThatNobodyHasIsRefused) {
  const auto store = memory(1 << 20);
  EXPECT_EQ(refusal_of([&] { store->commit({0, 1}, sample_of(1, 1)); }),
            "memory cache: commit of a key that nobody loads");
  EXPECT_EQ(store->statistics().bytes, 0u);
  EXPECT_EQ(refusal_of([&] { store->abandon({0, 1}); }), "memory cache: abandon of a key that nobody loads");
  load(*store, 1, 1);
  EXPECT_EQ(refusal_of([&] { store->fail({0, 1}, nullptr); }), "memory cache: fail of a key that nobody loads");
  EXPECT_EQ(refusal_of([&] { store->commit({0, 1}, sample_of(1, 1)); }),
            "memory cache: commit of a key that nobody loads");
  EXPECT_EQ(ask(*store, 1), Lookup::kHit);
}

TEST(MemoryStoreTest, DescribesItself) {
  EXPECT_EQ(memory(64 << 20)->describe(), "memory cache, 64 MiB");
  EXPECT_EQ(memory(std::uint64_t{3} << 40)->describe(), "memory cache, 3072 GiB");
  EXPECT_EQ(memory(1500)->describe(), "memory cache, 1500 bytes");
  EXPECT_EQ(memory(0)->describe(), "memory cache, 0 bytes");
}

TEST(MemoryStoreTest, ShardsAreAPowerOfTwo) {
  for (const std::size_t shards : {0u, 3u, 131072u}) {
    EXPECT_EQ(refusal_of([&] { memory(1, {.shards = shards}); }),
              "memory cache: shards must be a power of two, 1 to 65536, not " + std::to_string(shards));
  }
  for (const std::size_t shards : {1u, 2u, 65536u}) {
    const auto store = memory(1 << 20, {.shards = shards});
    load(*store, 1, 1);
    EXPECT_EQ(ask(*store, 1), Lookup::kHit);
  }
}

// Every shard draws on the one budget, so a full cache holds the same whatever their number.
TEST(MemoryStoreTest, ShardsShareOneBudget) {
  for (const std::size_t shards : {1u, 16u, 256u}) {
    const auto store = memory(50 * (64 + kOverhead), {.shards = shards});
    for (std::uint64_t key = 0; key < 100; ++key) load(*store, key, 64);
    EXPECT_EQ(store->statistics().kept, 50u);
    EXPECT_EQ(store->statistics().bytes, store->capacity_bytes());
  }
}

constexpr int kThreads = 8;

// Runs `body(thread)` on kThreads threads that start together.
void run_together(const std::function<void(int)>& body) {
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      body(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MemoryStoreConcurrencyTest, OneOwnerAndEveryWaiterCalledOnce) {
  enum class End { kCommit, kFail, kAbandon };
  for (const End end : {End::kCommit, End::kFail, End::kAbandon}) {
    const auto store = memory(1 << 20);
    std::atomic<int> owners{0};
    std::array<std::atomic<int>, kThreads> calls{};
    std::array<Lookup, kThreads> found{};
    std::barrier all_asked(kThreads);
    run_together([&](int t) {
      Sample hit;
      const auto thread = static_cast<std::size_t>(t);
      found[thread] = store->begin({5, 5}, hit, [&, thread](std::exception_ptr error) {
        ++calls[thread];
        EXPECT_EQ(error != nullptr, end == End::kFail);
      });
      all_asked.arrive_and_wait();
      if (found[thread] != Lookup::kOwner) return;
      ++owners;
      if (end == End::kCommit) store->commit({5, 5}, sample_of(5, 10));
      if (end == End::kFail) store->fail({5, 5}, std::make_exception_ptr(std::runtime_error("no")));
      if (end == End::kAbandon) store->abandon({5, 5});
    });
    EXPECT_EQ(owners, 1);
    for (std::size_t t = 0; t < kThreads; ++t) {
      EXPECT_EQ(calls[t], found[t] == Lookup::kPending ? 1 : 0);
    }
    EXPECT_EQ(ask(*store, 0), Lookup::kOwner);
  }
}

// All threads ask for all keys in orders of their own and end the loads in every way; the load of a key is never run by
// two at once, hits are right, and the numbers add up.
TEST(MemoryStoreConcurrencyTest, MixedLoadKeepsItsPromises) {
  constexpr std::uint64_t kKeys = 200;
  constexpr int kRounds = 2000;
  constexpr std::uint64_t kCapacity = 100 * (50 + kOverhead);
  const auto store = memory(kCapacity, {.shards = 4});
  std::array<std::atomic<int>, kKeys> loading{};
  std::atomic<std::uint64_t> waiting{0};
  std::atomic<std::uint64_t> woken{0};
  run_together([&](int t) {
    std::mt19937_64 random(static_cast<std::uint64_t>(t) + 1);
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t id = random() % kKeys;
      const SampleKey key{id, id * id};
      const std::size_t bytes = id % 100;
      Sample hit;
      switch (store->begin(key, hit, [&woken](std::exception_ptr) { ++woken; })) {
        case Lookup::kHit:
          ASSERT_EQ(hit.size_bytes(), bytes);
          if (bytes > 0) {
            ASSERT_EQ(hit["x"].view<std::uint8_t>()[0], static_cast<std::uint8_t>(id * 37 + 1));
          }
          break;
        case Lookup::kPending:
          ++waiting;
          break;
        case Lookup::kOwner:
          ASSERT_EQ(loading[id].fetch_add(1), 0);
          loading[id].fetch_sub(1);
          switch (random() % 3) {
            case 0:
              store->fail(key, std::make_exception_ptr(std::runtime_error("no")));
              break;
            case 1:
              store->abandon(key);
              break;
            default:
              store->commit(key, sample_of(id, bytes));
          }
      }
      ASSERT_LE(store->statistics().bytes, kCapacity);
    }
  });
  EXPECT_EQ(waiting, woken);
  const MemoryStatistics counts = store->statistics();
  EXPECT_EQ(counts.hits + counts.misses + counts.waits, std::uint64_t{kThreads} * kRounds);
  EXPECT_GT(counts.kept, 0u);
  EXPECT_GT(counts.refused, 0u);
  // What is counted is what is there, to the byte.
  std::uint64_t bytes = 0;
  for (std::uint64_t id = 0; id < kKeys; ++id) {
    Sample hit;
    if (store->begin({id, id * id}, hit, nobody()) == Lookup::kHit) bytes += hit.size_bytes() + kOverhead;
  }
  EXPECT_EQ(counts.bytes, bytes);
}

// 64 samples fit; 8 threads bring 8 x 16 of them at once, and exactly 64 get in.
TEST(MemoryStoreConcurrencyTest, RaceForTheLastBytesFillsTheBudgetExactly) {
  const auto store = memory(64 * (100 + kOverhead));
  run_together([&](int t) {
    for (std::uint64_t i = 0; i < 16; ++i) load(*store, static_cast<std::uint64_t>(t) * 16 + i, 100);
  });
  EXPECT_EQ(store->statistics().kept, 64u);
  EXPECT_EQ(store->statistics().refused, 64u);
  EXPECT_EQ(store->statistics().bytes, store->capacity_bytes());
}

}  // namespace
}  // namespace penstock::cache
