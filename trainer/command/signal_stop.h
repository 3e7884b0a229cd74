// SIGINT and SIGTERM as a stop request.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace penstock::trainer::command {

/// Takes SIGINT and SIGTERM for the whole process while it lives; one at a time. A signal ends the process at once with
/// 128 + its number, since nothing has been written; after `begin`, the first one requests a stop instead, and the
/// second ends the process at once.
class SignalStop {
 public:
  SignalStop();
  ~SignalStop();
  SignalStop(const SignalStop&) = delete;
  SignalStop& operator=(const SignalStop&) = delete;

  /// From here on there is something that can be stopped.
  void begin() noexcept { begun_ = true; }
  std::stop_token token() const { return stop_.get_token(); }
  /// The signal that requested the stop; 0: none.
  int signal() const noexcept { return signal_; }

 private:
  void watch();

  std::stop_source stop_;
  std::atomic<bool> begun_ = false;
  std::atomic<int> signal_ = 0;
  int pipe_[2] = {-1, -1};  ///< the handler writes signal numbers into it, the destructor a 0
  std::thread watcher_;
};

}  // namespace penstock::trainer::command
