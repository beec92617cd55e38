// The log of a long-running process: lines on stderr, with control characters escaped, because
// names and sentences of peers appear in them.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth::cli {

// trace, debug, info, warn, error or off.
Status start_process_log(const std::string& level);

// As the log writes it: bytes below space and DEL become \xNN.
std::string escape_control(std::string_view text);

}  // namespace hearth::cli
