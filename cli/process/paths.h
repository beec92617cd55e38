// Where things lie: XDG folders, overridable by flag and environment.
#pragma once

#include <filesystem>
#include <string>

namespace hearth::cli {

std::filesystem::path data_dir();                   // HEARTH_DATA_DIR, else $XDG_DATA_HOME/hearth
std::string data_folder(const std::string& given);  // as given, or data_dir() for an empty one
std::filesystem::path cache_dir();                  // HEARTH_CACHE_DIR, else $XDG_CACHE_HOME/hearth
std::filesystem::path models_dir();                 // HEARTH_MODELS, else cache_dir()/models
std::filesystem::path config_file();  // HEARTH_CONFIG, else $XDG_CONFIG_HOME/hearth/hearth.toml

}  // namespace hearth::cli
