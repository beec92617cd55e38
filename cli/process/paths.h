// The folders and log files that Hearth uses: XDG folders, overridable by flag and environment; and
// texts in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

std::filesystem::path data_dir();                   // HEARTH_DATA_DIR, else $XDG_DATA_HOME/hearth
std::string data_folder(const std::string& given);  // as given, or data_dir() for an empty one
std::filesystem::path cache_dir();                  // HEARTH_CACHE_DIR, else $XDG_CACHE_HOME/hearth
std::filesystem::path models_dir();                 // HEARTH_MODELS, else cache_dir()/models
std::filesystem::path config_file();  // HEARTH_CONFIG, else $XDG_CONFIG_HOME/hearth/hearth.toml

std::string environment_text(const char* name);  // empty where it is not set

// The file, or its first limit + 1 bytes where it is longer: the caller's parser then refuses it.
// kNotFound, kIo.
Result<std::string> read_text(const std::string& path, std::size_t limit);

// The logs folder. The server has a file, which also gets the lines of its local workers; each
// worker that was started by hand has one of its own.
// A full file is renamed to NAME.1.log, that one to NAME.2.log, and so on.
inline constexpr std::size_t kLogFileBytes = std::size_t{4} << 20;
inline constexpr std::uint32_t kLogFilesBefore = 3;  // in addition to the current one

// The file of the server, or of a worker by its name (empty: it has none). An empty data folder
// means data_dir().
std::string server_log_file(const std::string& data_folder);
std::string worker_log_file(const std::string& data_folder, const std::string& name);
// Names of the workers that have files of their own; "" stands for the one without a name.
std::vector<std::string> workers_with_files(const std::string& data_folder);

}  // namespace hearth::cli
