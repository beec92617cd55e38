#include "cli/process/paths.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWorkerFile = "worker-";
constexpr std::size_t kNodesMost = 1024;

fs::path from_environment(const char* name, const fs::path& otherwise) {
  const std::string value = environment_text(name);
  return value.empty() ? otherwise : fs::path(value);
}

fs::path xdg(const char* base, const char* under_home) {
  if (auto path = from_environment(base, {}); path.is_absolute()) return path / "hearth";
  return from_environment("HOME", "/tmp") / under_home / "hearth";
}

std::string log_file(const std::string& folder, const std::string& name) {
  return (fs::path(data_folder(folder)) / "logs" / (name + ".log")).string();
}

}  // namespace

fs::path data_dir() {
  return from_environment("HEARTH_DATA_DIR", xdg("XDG_DATA_HOME", ".local/share"));
}
std::string data_folder(const std::string& given) {
  return given.empty() ? data_dir().string() : given;
}
fs::path cache_dir() {
  return from_environment("HEARTH_CACHE_DIR", xdg("XDG_CACHE_HOME", ".cache"));
}
fs::path models_dir() { return from_environment("HEARTH_MODELS", cache_dir() / "models"); }
fs::path config_file() {
  return from_environment("HEARTH_CONFIG", xdg("XDG_CONFIG_HOME", ".config") / "hearth.toml");
}

std::string server_log_file(const std::string& data_folder) {
  return log_file(data_folder, "serve");
}

std::string worker_log_file(const std::string& data_folder, const std::string& name) {
  const bool is_file_name = !name.empty() && name.find('/') == std::string::npos;
  return log_file(data_folder, is_file_name ? "worker-" + name : "worker");
}

std::vector<std::string> workers_with_files(const std::string& data_folder) {
  std::vector<std::string> names;
  const fs::path folder = fs::path(server_log_file(data_folder)).parent_path();
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.ends_with(".log") || names.size() == kNodesMost) continue;
    name.resize(name.size() - 4);
    const bool own = name == "worker" || name.starts_with(kWorkerFile);
    // A rotated file, whose name ends in ".1", is not a worker's own.
    const std::size_t dot = name.rfind('.');
    std::error_code ignored;
    const bool full = dot != std::string::npos &&
                      name.find_first_not_of("0123456789", dot + 1) == std::string::npos &&
                      fs::exists(folder / (name.substr(0, dot) + ".log"), ignored);
    if (!own || full) continue;
    names.push_back(name == "worker" ? "" : name.substr(kWorkerFile.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error::of(ErrorCode::kNotFound, "there is no file ", path);
  std::string text;
  char piece[16 * 1024];
  while (file && text.size() <= limit) {
    file.read(piece, sizeof piece);
    text.append(piece, static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return Error::of(ErrorCode::kIo, "cannot read ", path);
  text.resize(std::min(text.size(), limit + 1));
  return text;
}

}  // namespace hearth::cli
