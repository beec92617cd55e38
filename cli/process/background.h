// A long-running process that goes on in the background (--detach): without a terminal, in a
// session of its own, so that closing the window does not end it.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth::cli {

// Forks. The child returns. The parent waits for it: it prints what report_ready() says and exits
// with 0, or, when the child ends before that, exits with its code. Called before threads and
// sockets exist. Interrupting the parent meanwhile ends the child. kIo when the system has no
// process left.
Status go_to_background();
// In the child, once it does what it was started for: its parent prints `text`, stdin, stdout and
// stderr become /dev/null, and the log file goes on. Nothing in any other process, and once only.
void report_ready(const std::string& text);

}  // namespace hearth::cli
