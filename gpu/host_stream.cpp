// Recordings and waits are operations of the queue like any other, so order is all there is to them.
#include <utility>

#include <penstock/gpu/host_stream.h>
#include <penstock/gpu/work_error.h>

namespace penstock::gpu {

HostStream::HostStream(std::string device, std::string name)
    : device_(std::move(device)), name_(std::move(name)), thread_([this] { run(); }) {}

HostStream::~HostStream() {
  finish();
  thread_.join();
}

void HostStream::enqueue(std::string work, std::function<void()> body) {
  if (const std::exception_ptr failed = failure()) std::rethrow_exception(failed);
  push({.work = std::move(work), .body = std::move(body), .record = nullptr, .wait = nullptr});
}

void HostStream::record(std::shared_ptr<Generation> generation) {
  push({.work = {}, .body = {}, .record = std::move(generation), .wait = nullptr});
}

void HostStream::wait(std::shared_ptr<const Generation> generation) {
  push({.work = {}, .body = {}, .record = nullptr, .wait = std::move(generation)});
}

void HostStream::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  arrived_.notify_one();
}

void HostStream::push(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
  }
  arrived_.notify_one();
}

void HostStream::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !queue_.empty() || finishing_; });
    if (queue_.empty()) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    execute(operation);
  }
}

void HostStream::execute(Operation& operation) {
  if (operation.record) {
    operation.record->complete(failure());
  } else if (operation.wait) {
    operation.wait->wait();
    if (operation.wait->failure()) fail(operation.wait->failure());
  } else if (!failure()) {
    try {
      try {
        operation.body();
      } catch (...) {
        throw_work_error(device_, operation.work, name_);
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }
}

void HostStream::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

std::exception_ptr HostStream::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace penstock::gpu
