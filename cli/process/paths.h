// The folders that Hearth uses: XDG folders, overridable by flag and environment; and texts in
// files.
#pragma once

#include <filesystem>
#include <string>

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

}  // namespace hearth::cli
