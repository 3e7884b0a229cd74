// What the program's exit says to a script.
#pragma once

namespace penstock::trainer::command {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,       ///< while running
  kUsage = 2,        ///< usage or bad input; nothing was started or written
  kPlanRefused = 3,  ///< the memory plan does not fit
  kSignalled = 128,  ///< plus the number of the signal that ended it: 130, 143
};

}  // namespace penstock::trainer::command
