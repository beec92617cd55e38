// The log of a long-running process, on stderr and in a file. Control characters are escaped,
// because names and messages of peers appear in it; warnings are limited by kind (log_limiter.h).
// `hearth logs` shows the file.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/process/paths.h"

namespace hearth::cli {

// trace, debug, info, warn, error or off.
Status start_process_log(const std::string& level);
// Puts a word before the text of every later line. The word lives as long as the process does: a
// literal. Any thread.
void mark_process_log(const char* word);
// From now on also logs to a file, in a folder that only this user can read. Must be called before
// threads start. kIo with the reason.
Status log_to_file(const std::string& path, std::size_t bytes = kLogFileBytes);
void log_to_file_or_warn(const std::string& path);
// Logs a line of a child process: "[name] line".
void log_child_line(const std::string& name, const std::string& line);

}  // namespace hearth::cli
