#include "cli/process/paths.h"

#include <cstdlib>

namespace hearth::cli {
namespace {

std::filesystem::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::filesystem::path(value) : std::filesystem::path();
}

std::filesystem::path xdg(const char* own, const char* base, const char* under_home) {
  if (auto path = from_environment(own); !path.empty()) return path;
  if (auto path = from_environment(base); path.is_absolute()) return path / "hearth";
  auto home = from_environment("HOME");
  if (home.empty()) home = "/tmp";
  return home / under_home / "hearth";
}

}  // namespace

std::filesystem::path data_dir() { return xdg("HEARTH_DATA_DIR", "XDG_DATA_HOME", ".local/share"); }
std::string data_folder(const std::string& given) {
  return given.empty() ? data_dir().string() : given;
}
std::filesystem::path cache_dir() { return xdg("HEARTH_CACHE_DIR", "XDG_CACHE_HOME", ".cache"); }
std::filesystem::path models_dir() {
  if (auto path = from_environment("HEARTH_MODELS"); !path.empty()) return path;
  return cache_dir() / "models";
}
std::filesystem::path config_file() {
  if (auto path = from_environment("HEARTH_CONFIG"); !path.empty()) return path;
  if (auto path = from_environment("XDG_CONFIG_HOME"); path.is_absolute()) {
    return path / "hearth" / "hearth.toml";
  }
  auto home = from_environment("HOME");
  if (home.empty()) home = "/tmp";
  return home / ".config" / "hearth" / "hearth.toml";
}

}  // namespace hearth::cli
