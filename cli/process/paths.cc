#include "cli/process/paths.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace hearth::cli {
namespace {

std::filesystem::path xdg(const char* own, const char* base, const char* under_home) {
  if (std::filesystem::path path = environment_text(own); !path.empty()) return path;
  if (std::filesystem::path path = environment_text(base); path.is_absolute())
    return path / "hearth";
  std::filesystem::path home = environment_text("HOME");
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
  if (std::filesystem::path path = environment_text("HEARTH_MODELS"); !path.empty()) return path;
  return cache_dir() / "models";
}
std::filesystem::path config_file() {
  if (std::filesystem::path path = environment_text("HEARTH_CONFIG"); !path.empty()) return path;
  if (std::filesystem::path path = environment_text("XDG_CONFIG_HOME"); path.is_absolute()) {
    return path / "hearth" / "hearth.toml";
  }
  std::filesystem::path home = environment_text("HOME");
  if (home.empty()) home = "/tmp";
  return home / ".config" / "hearth" / "hearth.toml";
}

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, "there is no file " + path};
  std::string text;
  char piece[16 * 1024];
  while (file && text.size() <= limit) {
    file.read(piece, sizeof piece);
    text.append(piece, static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return Error{ErrorCode::kIo, "cannot read " + path};
  text.resize(std::min(text.size(), limit + 1));
  return text;
}

}  // namespace hearth::cli
