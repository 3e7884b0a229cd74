// Lets a test meet "permission denied" although it runs as root.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

namespace penstock::test {

/// While it lives, this thread and the threads it starts open files as a user without rights (Linux keeps this apart
/// for each thread). Does nothing when the tests run as a plain user.
class PlainUser {
 public:
  PlainUser() {
    if (is_root_) ::setfsuid(65534);
  }
  PlainUser(const PlainUser&) = delete;
  PlainUser& operator=(const PlainUser&) = delete;
  ~PlainUser() {
    if (is_root_) ::setfsuid(0);
  }

 private:
  bool is_root_ = ::geteuid() == 0;
};

}  // namespace penstock::test
