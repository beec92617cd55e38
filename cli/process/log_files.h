// Names of the files in the logs folder. The server has one, which also gets the lines of its local
// workers; each worker that was started by hand has one of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hearth::cli {

// A full file is renamed to NAME.1.log, that one to NAME.2.log, and so on.
inline constexpr std::size_t kLogFileBytes = std::size_t{4} << 20;
inline constexpr std::uint32_t kLogFilesBefore = 3;  // in addition to the current one

// The file of the server, or of a worker by its name (empty: it has none). An empty data folder
// means the default of cli/process/paths.h.
std::string server_log_file(const std::string& data_folder);
std::string worker_log_file(const std::string& data_folder, const std::string& name);

// The name after `age` rotations: "a/b.log", 2 gives "a/b.2.log"; 0 gives `path` itself.
std::string log_file_name(const std::string& path, std::uint32_t age);

// Names of the workers that have files of their own; "" stands for the one without a name.
std::vector<std::string> workers_with_files(const std::string& data_folder);

}  // namespace hearth::cli
