// Continues a long-running process in the background (--detach): without a terminal, in a session
// of its own, so that closing the window does not end it.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth::cli {

// Forks. The child returns. The parent waits for it: it prints what report_ready() says and exits
// with 0, or, when the child ends before that, exits with its code. Called before threads and
// sockets exist. Interrupting the parent meanwhile ends the child. kIo when the system has no
// process left.
Status go_to_background();
// Called in the child once it runs: its parent prints `text`, stdin, stdout and stderr become
// /dev/null, and the log file continues. Does nothing in any other process, and nothing the second
// time.
void report_ready(const std::string& text);

}  // namespace hearth::cli
