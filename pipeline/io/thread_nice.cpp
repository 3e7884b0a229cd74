// setpriority with a thread's id, which Linux takes for a process's.
#include <penstock/pipeline/io/thread_nice.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace penstock {

void make_nice(int nice) noexcept {
  if (nice == 0) return;
  const auto thread = static_cast<id_t>(gettid());
  errno = 0;
  const int before = getpriority(PRIO_PROCESS, thread);
  if (errno != 0) return;
  static_cast<void>(setpriority(PRIO_PROCESS, thread, std::min(19, before + nice)));
}

}  // namespace penstock
