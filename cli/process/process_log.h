// The log of a long-running process: lines on stderr and in a file, with control characters
// escaped, because names and sentences of peers appear in them. `hearth logs` reads the file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/process/log_files.h"

namespace hearth::cli {

// trace, debug, info, warn, error or off.
Status start_process_log(const std::string& level);

// From now on also to a file of the logs folder, which is created for this user alone. To be called
// before there are threads. kIo says why it cannot be.
Status log_to_file(const std::string& path, std::size_t bytes = kLogFileBytes);
void log_to_file_or_warn(const std::string& path);

// A line of a process that this one has started: "[name] line".
void log_child_line(const std::string& name, const std::string& line);

// Why a handshake of the control plane failed. From any thread; of a flood of them some are counted
// and not said.
void log_failed_handshake(std::string_view why);

// An incoming data link that was refused before it opened, and exactly why; its peer is not told.
void log_refused_link(const std::string& why);

}  // namespace hearth::cli
