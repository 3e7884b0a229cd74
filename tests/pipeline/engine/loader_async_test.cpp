// A callback instead of a wait, and Asio's operations on top of it: once, in order, on the right thread, and never
// after the end.
#include <penstock/pipeline/asio.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>

#include "support/gate.h"
#include "support/pipeline_support.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
using test::Gate;
using test::numbers;
using test::values;
using Values = std::vector<std::int64_t>;

/// Results that callbacks leave, for a thread that waits for them.
class Mailbox {
 public:
  void put(NextResult result) {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
    threads_.push_back(std::this_thread::get_id());
    changed_.notify_all();
  }
  NextResult wait_for(std::size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.size() > number; });
    return results_[number];
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return results_.size();
  }
  std::thread::id thread(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return threads_.at(number);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<NextResult> results_;
  std::vector<std::thread::id> threads_;
};

/// Numbers that wait at a gate from `first` on.
Pipeline gated(Gate& gate, std::uint64_t count, std::int64_t first = 0) {
  return numbers(count).map("x", [&gate, first](std::int64_t x) {
    if (x >= first) gate.wait();
    return x;
  });
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

TEST(OnNextTest, CallsOnceOnAWorkerWithWhatNextWouldReturn) {
  const Runtime runtime({.threads = 2});
  Mailbox mail;
  Loader loader(runtime, numbers(5).batch(2), {.epoch_count = 1});
  for (std::size_t i = 0; i < 5; ++i) {
    loader.on_next([&](NextResult result) { mail.put(std::move(result)); });
    const NextResult result = mail.wait_for(i);
    EXPECT_NE(mail.thread(i), std::this_thread::get_id());
    EXPECT_FALSE(result.error);
    ASSERT_EQ(result.batch.has_value(), i < 3);
    if (i < 3) {
      EXPECT_EQ(result.batch->index(), i);
      EXPECT_EQ(values(*result.batch)[0], static_cast<std::int64_t>(i) * 20);
    }
  }
  EXPECT_EQ(mail.size(), 5u);
  EXPECT_EQ(loader.position(), (Position{1, 0}));
}

TEST(OnNextTest, IsNotCalledBeforeTheBatchIsThere) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Mailbox mail;
  Loader loader(runtime, gated(gate, 4).batch(4), {.epoch_count = 1});
  loader.on_next([&](NextResult result) { mail.put(std::move(result)); });
  gate.await_arrivals(1);
  EXPECT_EQ(mail.size(), 0u);
  gate.open();
  EXPECT_EQ(values(*mail.wait_for(0).batch), (Values{0, 10, 20, 30}));
}

TEST(OnNextTest, TheCallbackMayAskForTheNextOne) {
  for (const std::size_t threads : {1, 3}) {
    const Runtime runtime({.threads = threads});
    Values got;
    std::size_t ends = 0;
    std::promise<void> over;
    std::function<void(NextResult)> callback;
    Loader loader(runtime, numbers(1000).batch(7), {.epoch_count = 3});
    callback = [&](NextResult result) {
      if (result.batch) {
        for (const std::int64_t x : values(*result.batch)) got.push_back(x);
      } else if (++ends == 3) {
        over.set_value();
        return;
      }
      loader.on_next(callback);
    };
    loader.on_next(callback);
    over.get_future().wait();
    Values expected;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (std::int64_t i = 0; i < 1000; ++i) expected.push_back(i * 10);
    }
    EXPECT_EQ(got, expected);
  }
}

// The batch is there already, so the callback begins, and asks again, while the first call has still to return.
TEST(OnNextTest, AskingAgainMayOvertakeTheFirstCall) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 2000; ++round) {
    std::size_t rows = 1;
    std::binary_semaphore over(0);
    std::function<void(NextResult)> callback;
    Loader loader(runtime, numbers(6).batch(1), {.epoch_count = 1});
    ASSERT_TRUE(loader.next());
    callback = [&](const NextResult& result) {
      if (!result.batch) return over.release();
      rows += result.batch->size();
      loader.on_next(callback);
    };
    loader.on_next(callback);
    over.acquire();
    ASSERT_EQ(rows, 6u);
  }
}

TEST(OnNextTest, GivesErrorsInTheirPlace) {
  const Runtime runtime({.threads = 2});
  Mailbox mail;
  Loader loader(runtime,
                numbers(4)
                    .map("x",
                         [](std::int64_t x) {
                           if (x == 10) throw std::runtime_error("ten");
                           return x;
                         })
                    .batch(4),
                {.epoch_count = 1});
  const auto ask = [&] { loader.on_next([&](NextResult result) { mail.put(std::move(result)); }); };
  ask();
  EXPECT_EQ(values(*mail.wait_for(0).batch), (Values{0}));
  ask();
  EXPECT_THAT(text_of(mail.wait_for(1).error), ::testing::HasSubstr("sample 1, \"number 1\": ten"));
  ask();
  EXPECT_EQ(values(*mail.wait_for(2).batch), (Values{20, 30}));
}

TEST(OnNextTest, OneCallAtATimeIsTold) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Mailbox mail;
  Loader loader(runtime, gated(gate, 4).batch(4), {.epoch_count = 1});
  loader.on_next([&](NextResult result) { mail.put(std::move(result)); });
  const auto text = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(text([&] { loader.on_next([](const NextResult&) {}); }), "on_next: an earlier callback is still pending");
  EXPECT_EQ(text([&] { loader.next(); }), "loader: a callback of on_next() is pending");
  EXPECT_EQ(text([&] { loader.poll(); }), "loader: a callback of on_next() is pending");
  EXPECT_EQ(text([&] { loader.on_next({}); }), "on_next: an empty callback");
  gate.open();
  EXPECT_EQ(mail.wait_for(0).batch->size(), 4u);
  EXPECT_FALSE(loader.next());
}

TEST(OnNextTest, ACancelledCallbackIsNotCalledAndTheBatchStays) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Loader loader(runtime, gated(gate, 4).batch(2), {.epoch_count = 1});
  bool called = false;
  const auto held = std::make_shared<int>(1);
  EXPECT_FALSE(loader.cancel_on_next()) << "there is none";
  loader.on_next([&called, held](const NextResult&) { called = true; });
  gate.await_arrivals(1);
  EXPECT_TRUE(loader.cancel_on_next());
  EXPECT_EQ(held.use_count(), 1) << "the callback is gone";
  EXPECT_FALSE(loader.cancel_on_next());
  EXPECT_EQ(loader.position(), (Position{0, 0}));
  gate.open();
  EXPECT_EQ(test::epoch_values(loader), (std::vector<Values>{{0, 10}, {20, 30}}));
  EXPECT_FALSE(called);
}

// Whoever wins: either the callback has the batch, or the next call does.
TEST(OnNextTest, CancellingWhileTheBatchArrivesLosesNothing) {
  const Runtime runtime({.threads = 2});
  std::binary_semaphore arrived(0);
  std::int64_t last = 0;
  Loader loader(runtime, numbers(3000).batch(1), {.epoch_count = 1});
  Values got;
  while (got.size() < 3000) {
    loader.on_next([&](const NextResult& result) {
      last = values(*result.batch)[0];
      arrived.release();
    });
    if (loader.cancel_on_next()) {
      got.push_back(values(*loader.next())[0]);
    } else {
      arrived.acquire();
      got.push_back(last);
    }
  }
  for (std::int64_t i = 0; i < 3000; ++i) ASSERT_EQ(got[i], i * 10);
  EXPECT_FALSE(loader.next());
}

// One block, so that one of the two workers is left.
TEST(OnNextTest, StopCompletesItWithStopped) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Mailbox mail;
  Loader loader(runtime, gated(gate, 4).batch(4), {.epoch_count = 1, .block_size = 4});
  loader.on_next([&](NextResult result) { mail.put(std::move(result)); });
  gate.await_arrivals(1);
  loader.stop();
  const NextResult result = mail.wait_for(0);
  EXPECT_THROW(std::rethrow_exception(result.error), Stopped);
  EXPECT_EQ(text_of(result.error), "next: the loader was stopped");
  loader.on_next([&](NextResult later) { mail.put(std::move(later)); });
  EXPECT_THROW(std::rethrow_exception(mail.wait_for(1).error), Stopped);
  gate.open();
}

TEST(OnNextTest, TheLoadersEndCompletesItWithStopped) {
  const Runtime runtime({.threads = 1});
  for (int round = 0; round < 100; ++round) {
    Gate gate;
    Mailbox mail;
    {
      Loader loader(runtime, gated(gate, 40).batch(4), {.epoch_count = 1});
      loader.on_next([&](NextResult result) { mail.put(std::move(result)); });
      if (round % 2 == 0) gate.await_arrivals(1);
      gate.open();
    }
    ASSERT_EQ(mail.size(), 1u);
    const NextResult result = mail.wait_for(0);
    if (!result.batch) {
      EXPECT_EQ(text_of(result.error), "next: the loader was stopped");
    }
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(OnNextTest, NothingRunsAfterTheDestructorHasReturned) {
  const Runtime runtime({.threads = 3});
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> gone{false};
    std::atomic<int> late{0};
    std::function<void(NextResult)> callback;
    {
      Loader loader(runtime, numbers(100'000).batch(1 + round % 5), {});
      callback = [&](const NextResult& result) {
        if (gone) ++late;
        if (!result.error) loader.on_next(callback);
      };
      loader.on_next(callback);
      for (int i = 0; i < round % 7; ++i) std::this_thread::yield();
    }
    gone = true;
    EXPECT_EQ(late, 0);
  }
}

TEST(OnNextTest, TheCallbackMayEndTheLoader) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 50; ++round) {
    auto loader = std::make_unique<Loader>(runtime, numbers(100).batch(4));
    const auto ended = std::make_shared<std::promise<void>>();
    loader->on_next([&loader, ended](NextResult result) {
      result.batch.reset();
      loader.reset();
      ended->set_value();
    });
    ended->get_future().wait();
    EXPECT_FALSE(loader);
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(OnNextTest, WorksForPlansThatAreNotFlat) {
  const Runtime runtime({.threads = 2});
  Values got;
  std::promise<void> over;
  std::function<void(NextResult)> callback;
  Loader loader(runtime, numbers(100).filter("x", [](std::int64_t x) { return x % 20 == 0; }).batch(7),
                {.epoch_count = 1});
  callback = [&](NextResult result) {
    if (!result.batch) return over.set_value();
    for (const std::int64_t x : values(*result.batch)) got.push_back(x);
    loader.on_next(callback);
  };
  loader.on_next(callback);
  over.get_future().wait();
  ASSERT_EQ(got.size(), 50u);
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(got[i], i * 20);
}

/// A plan that is not flat, held up: what waits is told of the end here too.
TEST(OnNextTest, LeavingAStreamCompletesItWithStopped) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    Mailbox mail;
    {
      Loader loader(runtime, gated(gate, 40).filter("x", [](std::int64_t x) { return x >= 0; }).batch(4));
      loader.on_next([&](NextResult result) { mail.put(std::move(result)); });
      gate.await_arrivals(1);
      if (round % 2 == 0) loader.stop();
      gate.open();
    }
    ASSERT_EQ(mail.size(), 1u);
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

TEST(AsyncNextTest, CoroutinesTakeEpochsInOneThread) {
  const Runtime runtime({.threads = 2});
  Loader a(runtime, numbers(50).shuffle({.seed = 3}).batch(4), {.epoch_count = 2});
  Loader b(runtime, numbers(9).batch(2), {.epoch_count = 2});
  asio::io_context context(1);
  const std::thread::id here = std::this_thread::get_id();
  const auto take = [&](Loader& loader, std::vector<Values>& epochs) -> asio::awaitable<void> {
    for (int epoch = 0; epoch < 2; ++epoch) {
      Values& got = epochs.emplace_back();
      while (const std::optional<Batch> batch = co_await async_next(loader, asio::use_awaitable)) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        EXPECT_EQ(batch->epoch(), static_cast<std::uint64_t>(epoch));
        for (const std::int64_t x : values(*batch)) got.push_back(x);
      }
    }
    const std::optional<Batch> after = co_await async_next(loader, asio::use_awaitable);
    EXPECT_FALSE(after) << "after the last epoch: nothing, for ever";
  };
  std::vector<Values> of_a;
  std::vector<Values> of_b;
  int ended = 0;
  const auto count = [&](const std::exception_ptr& error) {
    if (error) ADD_FAILURE() << text_of(error);
    ++ended;
  };
  asio::co_spawn(context, take(a, of_a), count);
  asio::co_spawn(context, take(b, of_b), count);
  context.run();
  EXPECT_EQ(ended, 2);

  Loader again(runtime, numbers(50).shuffle({.seed = 3}).batch(4), {.epoch_count = 2});
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(of_a.at(epoch), test::flat_epoch(again));
  EXPECT_EQ(of_b, (std::vector<Values>(2, Values{0, 10, 20, 30, 40, 50, 60, 70, 80})));
}

TEST(AsyncNextTest, ErrorsAreThrownIntoTheCoroutine) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime,
                numbers(6)
                    .map("x",
                         [](std::int64_t x) {
                           if (x == 20) throw std::runtime_error("twenty");
                           return x;
                         })
                    .batch(4),
                {.epoch_count = 1});
  asio::io_context context;
  std::vector<std::string> log;
  const auto take = [&]() -> asio::awaitable<void> {
    for (bool more = true; more;) {
      try {
        const std::optional<Batch> batch = co_await async_next(loader, asio::use_awaitable);
        log.push_back(batch ? std::to_string(batch->size()) + " rows" : "end");
        more = batch.has_value();
      } catch (const SampleError& error) {
        log.push_back(error.stage() + " " + std::to_string(error.index()));
      }
    }
  };
  asio::co_spawn(context, take(), asio::detached);
  context.run();
  EXPECT_EQ(log, (std::vector<std::string>{"2 rows", "map(x) 2", "1 rows", "2 rows", "end"}));
}

TEST(AsyncNextTest, FuturesGetBatchesAndErrors) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(4).batch(4), {.epoch_count = 1});
  EXPECT_EQ(values(*async_next(loader, asio::use_future).get()), (Values{0, 10, 20, 30}));
  EXPECT_FALSE(async_next(loader, asio::use_future).get());
  loader.stop();
  EXPECT_THROW(async_next(loader, asio::use_future).get(), Stopped);
}

TEST(AsyncNextTest, CompletesOnTheExecutorNeverInline) {
  const Runtime runtime({.threads = 2});
  Loader loader(runtime, numbers(8).batch(4), {.epoch_count = 1});
  ASSERT_TRUE(loader.next());
  asio::thread_pool pool(1);
  std::promise<std::thread::id> pools;
  asio::post(pool, [&] { pools.set_value(std::this_thread::get_id()); });
  std::promise<std::thread::id> called;
  bool begun = false;
  asio::post(pool, [&] {
    async_next(loader, asio::bind_executor(asio::make_strand(pool),
                                           [&](const std::exception_ptr& error, const std::optional<Batch>& batch) {
                                             EXPECT_TRUE(begun) << "not from inside the call";
                                             EXPECT_FALSE(error);
                                             EXPECT_EQ(values(*batch)[0], 40);
                                             called.set_value(std::this_thread::get_id());
                                           }));
    begun = true;
  });
  EXPECT_EQ(called.get_future().get(), pools.get_future().get());
  pool.join();
}

TEST(AsyncNextTest, ASecondCallCompletesWithAnError) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Loader loader(runtime, gated(gate, 4).batch(4), {.epoch_count = 1});
  asio::io_context context;
  std::vector<std::string> log;
  async_next(loader, asio::bind_executor(context, [&](const std::exception_ptr& error, std::optional<Batch> batch) {
               log.push_back(error ? text_of(error) : std::to_string(batch->size()) + " rows");
             }));
  async_next(loader, asio::bind_executor(context, [&](const std::exception_ptr& error, const std::optional<Batch>&) {
               log.push_back(error ? text_of(error) : "rows");
               gate.open();
             }));
  EXPECT_TRUE(log.empty());
  context.run();
  EXPECT_EQ(log, (std::vector<std::string>{"on_next: an earlier callback is still pending", "4 rows"}));
}

TEST(AsyncNextTest, CancellationInMidWaitLeavesTheBatch) {
  const Runtime runtime({.threads = 2});
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                          asio::cancellation_type::total, asio::cancellation_type::all}) {
    Gate gate;
    Loader loader(runtime, gated(gate, 4).batch(2), {.epoch_count = 1});
    asio::io_context context;
    asio::cancellation_signal signal;
    boost::system::error_code code;
    async_next(loader, asio::bind_cancellation_slot(
                           signal.slot(), asio::bind_executor(context, [&](const std::exception_ptr& error,
                                                                           const std::optional<Batch>& batch) {
                             EXPECT_FALSE(batch);
                             try {
                               std::rethrow_exception(error);
                             } catch (const boost::system::system_error& caught) {
                               code = caught.code();
                             }
                           })));
    gate.await_arrivals(1);
    asio::post(context, [&] { signal.emit(asio::cancellation_type::none); });
    asio::post(context, [&] { signal.emit(type); });
    context.run();
    EXPECT_EQ(code, boost::asio::error::operation_aborted);
    signal.emit(type);  // finds nothing any more
    gate.open();
    EXPECT_EQ(test::epoch_values(loader), (std::vector<Values>{{0, 10}, {20, 30}}));
  }
}

TEST(AsyncNextTest, ACancelledCoroutineMayWaitAgain) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  Loader loader(runtime, gated(gate, 4).batch(4), {.epoch_count = 1});
  asio::io_context context;
  asio::cancellation_signal signal;
  std::vector<std::string> log;
  const auto take = [&]() -> asio::awaitable<void> {
    try {
      co_await async_next(loader, asio::use_awaitable);
    } catch (const boost::system::system_error& error) {
      log.push_back(error.code() == asio::error::operation_aborted ? "aborted" : error.what());
    }
    co_await asio::this_coro::reset_cancellation_state();
    gate.open();
    const std::optional<Batch> batch = co_await async_next(loader, asio::use_awaitable);
    log.push_back(std::to_string(batch->size()));
  };
  asio::co_spawn(context, take(), asio::bind_cancellation_slot(signal.slot(), asio::detached));
  asio::post(context, [&] { signal.emit(asio::cancellation_type::terminal); });
  context.run();
  EXPECT_EQ(log, (std::vector<std::string>{"aborted", "4"}));
}

TEST(AsyncNextTest, TheLoadersEndInMidWaitCompletesWithStopped) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    std::optional<Loader> loader(std::in_place, runtime, gated(gate, 8).batch(4));
    asio::io_context context;
    asio::cancellation_signal signal;
    std::string said;
    async_next(*loader, asio::bind_cancellation_slot(signal.slot(),
                                                     asio::bind_executor(context, [&](const std::exception_ptr& error,
                                                                                      const std::optional<Batch>&) {
                                                       said = error ? text_of(error) : "a batch";
                                                     })));
    gate.await_arrivals(1);
    const bool stopped = round % 2 == 0;
    if (stopped) loader->stop();
    std::thread opener([&] { gate.open(); });
    loader.reset();
    opener.join();
    signal.emit(asio::cancellation_type::terminal);  // too late, and nobody is asked any more
    context.run();
    EXPECT_THAT(said, ::testing::AnyOf("next: the loader was stopped", stopped ? "" : "a batch"));
  }
}

TEST(AsyncNextTest, TheContextsEndInMidWaitLetsTheHandlerGo) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    Loader loader(runtime, gated(gate, 8).batch(4), {.epoch_count = 1});
    const auto held = std::make_shared<int>(1);
    {
      asio::io_context context;
      async_next(loader, asio::bind_executor(context, [held](const std::exception_ptr&, const std::optional<Batch>&) {
                   ADD_FAILURE() << "nobody runs the context";
                 }));
      gate.await_arrivals(1);
      EXPECT_EQ(held.use_count(), 2);
    }
    EXPECT_EQ(held.use_count(), 1);
    gate.open();
    EXPECT_EQ(test::flat_epoch(loader).size(), 8u) << "the batch was left for the next call";
  }
}

TEST(AsyncNextTest, TheContextsEndWhileTheBatchArrivesIsSafe) {
  const Runtime runtime({.threads = 2});
  for (int round = 0; round < 300; ++round) {
    Loader loader(runtime, numbers(100).batch(4));
    asio::io_context context;
    async_next(loader, asio::bind_executor(context, [](const std::exception_ptr&, const std::optional<Batch>&) {}));
    for (int i = 0; i < round % 9; ++i) std::this_thread::yield();
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

// The frame goes with the context, and the loader with the frame.
TEST(AsyncNextTest, ACoroutineMayOwnItsLoader) {
  const Runtime runtime({.threads = 2});
  Gate gate;
  {
    asio::io_context context;
    const auto take = [&]() -> asio::awaitable<void> {
      Loader loader(runtime, gated(gate, 8, 40).batch(4));
      const std::optional<Batch> batch = co_await async_next(loader, asio::use_awaitable);
      const Values expected = {0, 10, 20, 30};
      EXPECT_EQ(values(*batch), expected);
      co_await async_next(loader, asio::use_awaitable);
      ADD_FAILURE() << "the second batch never comes";
    };
    asio::co_spawn(context, take(), asio::detached);
    while (gate.arrived() == 0) context.run_one_for(std::chrono::milliseconds(1));
    gate.open();
  }
  EXPECT_EQ(runtime.in_flight_bytes(), 0u);
}

}  // namespace
}  // namespace penstock
