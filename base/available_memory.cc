#include "base/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace hearth {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Null for "max" and for what is not there.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return number(word);
}

// The number after `key` at the start of a line.
std::optional<std::uint64_t> field_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::string value;
    words >> name >> value;
    if (name == key) return number(value);
  }
  return std::nullopt;
}

// The rest of one group's limit. Cached pages of files count as free: the kernel reclaims them.
std::uint64_t left_in(const std::string& group, const char* limit, const char* usage,
                      const char* prefix) {
  const auto most = number_in(group + limit);
  const auto used = number_in(group + usage);
  if (!most || !used) return kUnknown;
  std::uint64_t files = 0;
  for (const char* kind : {"inactive_file", "active_file"}) {
    files += field_in(group + "/memory.stat", std::string(prefix) + kind).value_or(0);
  }
  const std::uint64_t held = *used - std::min(*used, files);
  return *most - std::min(*most, held);
}

// The least over a group and all of its parents.
std::uint64_t left_in_all(const std::string& mount, std::string path, const char* limit,
                          const char* usage, const char* prefix) {
  std::uint64_t least = kUnknown;
  while (true) {
    least = std::min(least, left_in(mount + path, limit, usage, prefix));
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
  return least;
}

}  // namespace

std::uint64_t available_memory(const std::string& root) {
  std::uint64_t least = kUnknown;
  if (const auto kib = field_in(root + "/proc/meminfo", "MemAvailable:")) least = *kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers == ",,") {
      least = std::min(least, left_in_all(mount, path, "/memory.max", "/memory.current", ""));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, left_in_all(mount + "/memory", path, "/memory.limit_in_bytes",
                                          "/memory.usage_in_bytes", "total_"));
    }
  }
  return least;
}

std::optional<std::uint64_t> held_memory(pid_t process, const std::string& root) {
  const auto kib = field_in(root + "/proc/" + std::to_string(process) + "/status", "RssAnon:");
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

}  // namespace hearth
