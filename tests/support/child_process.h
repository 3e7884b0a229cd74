// Runs a program as a child: arguments, what it says, signals, how it ends.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/source_temp_folder.h"

namespace penstock::test {

/// How a child ended. `code` is its exit code, or 1000 + the number of the signal that killed it.
struct ChildResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// A child whose standard output is read line by line while it runs. It is killed when the test ends before it.
class ChildProcess {
 public:
  /// Starts `arguments[0]` in the folder `work`.
  ChildProcess(std::vector<std::string> arguments, const std::string& work) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    err_path_ = errors_.path("err");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("fork");
    if (child_ == 0) {
      const int errors = open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (chdir(work.c_str()) != 0 || dup2(ends[1], STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0) _exit(126);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    fclose(output_);
  }

  /// The next line of standard output, without its end; empty when there are no more. Blocks.
  std::string read_line() {
    std::string line;
    for (int c = fgetc(output_); c != EOF; c = fgetc(output_)) {
      out_ += static_cast<char>(c);
      if (c == '\n') break;
      line += static_cast<char>(c);
    }
    return line;
  }
  void send(int signal) const { kill(child_, signal); }
  /// Reads the rest, waits for the end.
  ChildResult wait() {
    for (int c = fgetc(output_); c != EOF; c = fgetc(output_)) out_ += static_cast<char>(c);
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    std::ifstream errors(err_path_);
    std::string err{std::istreambuf_iterator<char>(errors), std::istreambuf_iterator<char>()};
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), out_, std::move(err)};
  }

 private:
  TempFolder errors_;
  std::string err_path_;
  std::string out_;
  pid_t child_ = -1;
  FILE* output_ = nullptr;
};

inline ChildResult run_child(std::vector<std::string> arguments, const std::string& work) {
  return ChildProcess(std::move(arguments), work).wait();
}

}  // namespace penstock::test
