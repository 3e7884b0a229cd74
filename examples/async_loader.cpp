// Two consumers in one thread: coroutines that wait for batches of two loaders without blocking each other, and one
// that is told to leave in the middle of an epoch.
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <penstock/pipeline/asio.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/memory.h>

namespace {

using penstock::Batch;
using penstock::Loader;
namespace asio = boost::asio;

penstock::Pipeline numbers(std::int64_t count) {
  std::vector<penstock::Sample> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    samples.emplace_back(std::vector<std::string>{"x"}, std::vector{penstock::Tensor::scalar(i)});
  }
  return penstock::memory(std::move(samples)).shuffle({.seed = 7});
}

/// Sums one epoch.
asio::awaitable<std::int64_t> sum_epoch(Loader& loader) {
  std::int64_t sum = 0;
  while (const std::optional<Batch> batch = co_await penstock::async_next(loader, asio::use_awaitable)) {
    for (const std::int64_t x : batch->view<std::int64_t>("x").span()) sum += x;
  }
  co_return sum;
}

asio::awaitable<void> train_and_validate(Loader& train, Loader& validation) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::int64_t trained = co_await sum_epoch(train);
    const std::int64_t validated = co_await sum_epoch(validation);
    if (trained != 9900 || validated != 45) throw std::runtime_error("a sample is missing");
    std::cout << "epoch " << epoch << ": " << trained << " and " << validated << "\n";
  }
}

/// Takes batches until it is cancelled: what it was waiting for stays with the loader.
asio::awaitable<void> watch(Loader& loader, asio::cancellation_signal& leave, int& seen) {
  try {
    for (;;) {
      if (seen == 3) leave.emit(asio::cancellation_type::terminal);
      co_await penstock::async_next(loader, asio::use_awaitable);
      ++seen;
    }
  } catch (const boost::system::system_error& error) {
    std::cout << "left after " << seen << " batches: " << error.code().message() << "\n";
  }
}

}  // namespace

int main() {
  const penstock::Runtime runtime({.threads = 2});
  Loader train(runtime, numbers(100).map("x", [](std::int64_t x) { return 2 * x; }).batch(8), {.epoch_count = 2});
  Loader validation(runtime, numbers(10).batch(4), {.epoch_count = 2});
  Loader watched(runtime, numbers(100).batch(4));

  asio::io_context context(1);
  std::exception_ptr failure;
  const auto rethrow = [&failure](const std::exception_ptr& error) {
    if (error) failure = error;
  };
  asio::cancellation_signal leave;
  int seen = 0;
  asio::co_spawn(context, train_and_validate(train, validation), rethrow);
  asio::co_spawn(context, watch(watched, leave, seen), asio::bind_cancellation_slot(leave.slot(), rethrow));
  context.run();

  if (failure) std::rethrow_exception(failure);
  const std::optional<Batch> next = watched.next();
  std::cout << "and batch " << next->index() << " is still there\n";
  return seen == 3 && next->index() == 3 ? 0 : 1;
}
