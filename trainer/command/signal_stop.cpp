// A handler may do next to nothing, so it writes the signal's number into a pipe, and a thread acts on it. (A blocked
// mask and sigwait would not do: libraries start threads before `main`, and those do not have the mask.)
#include <penstock/trainer/command/signal_stop.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <penstock/trainer/command/exit_code.h>

namespace penstock::trainer::command {
namespace {

std::atomic<int> handler_pipe = -1;
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

bool write_number(int pipe, int number) {
  const auto byte = static_cast<unsigned char>(number);
  return write(pipe, &byte, 1) == 1;
}

void on_signal(int number) {
  const int saved = errno;
  if (!write_number(handler_pipe, number)) _exit(kSignalled + number);
  errno = saved;
}

void set_handler(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

}  // namespace

SignalStop::SignalStop() {
  if (pipe2(pipe_, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  handler_pipe = pipe_[1];
  watcher_ = std::thread([this] { watch(); });
  set_handler(on_signal);
}

SignalStop::~SignalStop() {
  set_handler(SIG_DFL);
  write_number(pipe_[1], 0);
  watcher_.join();
  close(pipe_[0]);
  close(pipe_[1]);
}

void SignalStop::watch() {
  for (;;) {
    unsigned char number = 0;
    const ssize_t got = read(pipe_[0], &number, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || number == 0) return;
    if (!begun_ || signal_ != 0) _exit(kSignalled + number);
    signal_ = number;
    stop_.request_stop();
  }
}

}  // namespace penstock::trainer::command
