// The files of the logs folder: one of the server, with the lines of its local workers, and one of
// each worker that was started by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::cli {

// A file that is full becomes NAME.1.log, which becomes NAME.2.log, and so on.
inline constexpr std::size_t kLogFileBytes = std::size_t{4} << 20;
inline constexpr std::uint32_t kLogFilesBefore = 3;  // beside the one that is written

// The file of a process: of the server, or of a worker by its name (empty: it chose none). An empty
// data folder means cli/process/paths.h.
std::string server_log_file(const std::string& data_folder);
std::string worker_log_file(const std::string& data_folder, const std::string& name);

// The place of `path` among its predecessors: "a/b.log", 2 becomes "a/b.2.log"; 0 is itself.
std::string log_file_name(const std::string& path, std::uint32_t age);

// Names of workers that have files of their own; "" is the one that chose no name.
std::vector<std::string> workers_with_files(const std::string& data_folder);

// The nodes that have logged something on this machine: "coordinator", its local workers, and
// workers that were started by hand.
std::vector<std::string> logged_nodes(const std::string& data_folder);

// One line of the server's log: whose it is, and the line itself.
struct LogLine {
  std::string_view node;
  std::string_view text;
};
LogLine split_log_line(std::string_view line);

}  // namespace hearth::cli
