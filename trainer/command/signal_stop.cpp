#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <penstock/trainer/command/exit_code.h>
#include <penstock/trainer/command/signal_stop.h>

namespace penstock::trainer::command {
namespace {

/// The watched signals, and SIGUSR1, by which the destructor ends the watcher.
sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

SignalStop::SignalStop() {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::thread([this] { watch(); });
}

SignalStop::~SignalStop() {
  pthread_kill(watcher_.native_handle(), SIGUSR1);
  watcher_.join();
}

void SignalStop::watch() {
  const sigset_t set = watched_signals();
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (number == SIGUSR1) return;
    if (!begun_ || signal_ != 0) _exit(kSignalled + number);
    signal_ = number;
    stop_.request_stop();
  }
}

}  // namespace penstock::trainer::command
