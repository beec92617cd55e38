#include "cli/process/log_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/process/log_reader.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCoordinator = "coordinator";
constexpr std::string_view kWorkerFile = "worker-";
constexpr std::size_t kNodesMost = 1024;

std::string log_file(const std::string& data_folder, const std::string& name) {
  const fs::path folder = data_folder.empty() ? data_dir() : fs::path(data_folder);
  return (folder / "logs" / (name + ".log")).string();
}

}  // namespace

std::string server_log_file(const std::string& data_folder) {
  return log_file(data_folder, "serve");
}

std::string worker_log_file(const std::string& data_folder, const std::string& name) {
  const bool is_file_name = !name.empty() && name.find('/') == std::string::npos;
  return log_file(data_folder, is_file_name ? "worker-" + name : "worker");
}

std::string log_file_name(const std::string& path, std::uint32_t age) {
  if (age == 0) return path;
  const std::size_t slash = path.rfind('/');
  const std::size_t dot = path.rfind('.');
  const bool has_end = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  const std::size_t at = has_end ? dot : path.size();
  return path.substr(0, at) + "." + std::to_string(age) + path.substr(at);
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
    // What a full file has become is no worker: its name ends in ".1".
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

LogLine split_log_line(std::string_view line) {
  // Lines of the server itself begin with the date.
  const std::size_t end = line.find("] ");
  if (!line.starts_with('[') || end == std::string_view::npos) return {kCoordinator, line};
  return {line.substr(1, end - 1), line.substr(end + 2)};
}

std::vector<std::string> logged_nodes(const std::string& data_folder) {
  std::set<std::string> names;
  LogReader reader(server_log_file(data_folder));
  reader.read([&](std::string_view line) {
    if (names.size() < kNodesMost) names.emplace(split_log_line(line).node);
  });
  for (const std::string& name : workers_with_files(data_folder)) {
    names.insert(name.empty() ? "worker" : name);
  }
  return {names.begin(), names.end()};
}

}  // namespace hearth::cli
