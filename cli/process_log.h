// The log of a long-running process: lines on stderr, with control characters escaped, because
// names and sentences of peers appear in them.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth::cli {

// trace, debug, info, warn, error or off.
Status start_process_log(const std::string& level);

// An incoming data link that was refused before it opened, and exactly why; its peer is not told.
void log_refused_link(const std::string& why);

}  // namespace hearth::cli
