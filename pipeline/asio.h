// Asio and the loader: a batch as an asynchronous operation, for any completion token. The one public header that needs
// Asio (Boost 1.81 or later); CMake target penstock::asio.
//
//   boost::asio::awaitable<void> train(Loader& loader) {
//     while (std::optional<Batch> batch = co_await async_next(loader, boost::asio::use_awaitable)) use(*batch);
//   }
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/system/system_error.hpp>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/loader.h>

namespace penstock {

namespace detail {

/// One waiting `async_next`.
class NextOperation : public std::enable_shared_from_this<NextOperation> {
 public:
  virtual ~NextOperation() = default;
  /// The executor's context is about to end: nobody will be called.
  virtual void abandon() = 0;
};

/// The operations that wait for loaders on behalf of one execution context. Outlives the context where a loader has
/// still to let an operation go. Safe for concurrent use.
class NextOperations {
 public:
  /// False when the context has ended.
  bool add(std::shared_ptr<NextOperation> operation) {
    const std::lock_guard lock(mutex_);
    if (!closed_) operations_.insert(std::move(operation));
    return !closed_;
  }
  void remove(const std::shared_ptr<NextOperation>& operation) {
    const std::lock_guard lock(mutex_);
    operations_.erase(operation);
  }
  void close() {
    std::unordered_set<std::shared_ptr<NextOperation>> left;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      left.swap(operations_);
    }
    for (const std::shared_ptr<NextOperation>& operation : left) operation->abandon();
  }

 private:
  std::mutex mutex_;
  bool closed_ = false;
  std::unordered_set<std::shared_ptr<NextOperation>> operations_;
};

/// Ends the operations of a context with it, so that a loader never completes to one that is gone.
class NextService final : public boost::asio::execution_context::service {
 public:
  using key_type = NextService;
  static inline boost::asio::execution_context::id id;
  explicit NextService(boost::asio::execution_context& context) : service(context) {}
  const std::shared_ptr<NextOperations>& operations() const noexcept { return operations_; }

 private:
  void shutdown() override { operations_->close(); }

  const std::shared_ptr<NextOperations> operations_ = std::make_shared<NextOperations>();
};

/// The operation for a handler `void(std::exception_ptr, std::optional<Batch>)`.
template <class Handler>
class HandlerOperation final : public NextOperation {
 public:
  using Executor = boost::asio::associated_executor_t<Handler>;
  using Slot = boost::asio::associated_cancellation_slot_t<Handler>;

  explicit HandlerOperation(Handler handler)
      : pending_(std::in_place, std::move(handler)), slot_(boost::asio::get_associated_cancellation_slot(handler_())) {
    const Executor& executor = pending_->guard.get_executor();
    if constexpr (boost::asio::can_query_v<const Executor&, boost::asio::execution::context_t>) {
      boost::asio::execution_context& context = boost::asio::query(executor, boost::asio::execution::context);
      operations_ = boost::asio::use_service<NextService>(context).operations();
    } else {
      operations_ = std::make_shared<NextOperations>();
    }
  }

  void begin(Loader& loader) {
    const auto self = std::static_pointer_cast<HandlerOperation>(shared_from_this());
    if (!operations_->add(self)) {
      abandon();
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      loader_ = &loader;
    }
    if (slot_.is_connected()) {
      slot_.assign([weak = std::weak_ptr(self)](boost::asio::cancellation_type type) {
        constexpr auto kAny = boost::asio::cancellation_type::terminal | boost::asio::cancellation_type::partial |
                              boost::asio::cancellation_type::total;
        if ((type & kAny) == boost::asio::cancellation_type::none) return;
        if (const auto operation = weak.lock()) operation->cancel();
      });
    }
    try {
      loader.on_next([self](NextResult result) { self->complete(std::move(result)); });
    } catch (...) {
      complete({std::nullopt, std::current_exception()});
    }
  }

  // The handler ends outside the lock: a coroutine's frame may go with it, and the loader with that.
  void abandon() override { const std::optional<Pending> ends = give_up(); }

 private:
  struct Pending {
    explicit Pending(Handler of) : handler(std::move(of)), guard(boost::asio::get_associated_executor(handler)) {}
    Handler handler;
    boost::asio::executor_work_guard<Executor> guard;
  };
  const Handler& handler_() const noexcept { return pending_->handler; }

  std::optional<Pending> give_up() {
    const std::lock_guard lock(mutex_);
    // The loader's end would wait for the mutex: it is there.
    if (Loader* const loader = std::exchange(loader_, nullptr)) loader->cancel_on_next();
    std::optional<Pending> pending = std::move(pending_);
    pending_.reset();
    return pending;
  }

  void cancel() {
    {
      const std::lock_guard lock(mutex_);
      if (!loader_ || !loader_->cancel_on_next()) return;
      post_locked({std::nullopt, std::make_exception_ptr(boost::system::system_error(
                                     boost::asio::error::make_error_code(boost::asio::error::operation_aborted)))});
    }
    operations_->remove(shared_from_this());
  }

  void complete(NextResult result) {
    {
      const std::lock_guard lock(mutex_);
      if (!pending_) return;
      post_locked(std::move(result));
    }
    operations_->remove(shared_from_this());
  }

  // Under the mutex, which `abandon` waits for: so the context is there.
  void post_locked(NextResult result) {
    loader_ = nullptr;
    const Executor executor = pending_->guard.get_executor();
    boost::asio::post(executor, [pending = std::move(*pending_), slot = slot_, result = std::move(result)]() mutable {
      if (slot.is_connected()) slot.clear();
      Handler handler = std::move(pending.handler);
      handler(std::move(result.error), std::move(result.batch));
    });
    pending_.reset();
  }

  std::shared_ptr<NextOperations> operations_;
  std::mutex mutex_;
  Loader* loader_ = nullptr;  // while its callback may still come
  std::optional<Pending> pending_;
  Slot slot_;
};

}  // namespace detail

/// What `loader.next()` returns or throws, as an asynchronous operation with the completion signature
/// `void(std::exception_ptr, std::optional<Batch>)`: with `use_awaitable`, `co_await` gives the optional batch (nothing
/// at the end of an epoch, after which the next call starts the next one) or throws.
///
/// Completes on the token's associated executor, never inside this call and never on a worker; until then the executor
/// has work. One call at a time, as for Loader::on_next: a second one completes with std::logic_error.
/// Cancellation (any type, through the token's cancellation slot, on its executor) completes with
/// boost::system::system_error(boost::asio::error::operation_aborted) and leaves the batch for the next call; it comes
/// too late when the batch is on its way already. The loader may be destroyed or stopped meanwhile (Stopped), not
/// moved; when the executor's context ends, nobody is called.
template <class CompletionToken>
auto async_next(Loader& loader, CompletionToken&& token) {
  return boost::asio::async_initiate<CompletionToken, void(std::exception_ptr, std::optional<Batch>)>(
      [](auto handler, Loader* of) {
        using Operation = detail::HandlerOperation<decltype(handler)>;
        std::make_shared<Operation>(std::move(handler))->begin(*of);
      },
      token, &loader);
}

}  // namespace penstock
