#include "cli/pause_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/private_file.h"
#include "cli/process/loop.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;

int open_lock(const std::string& folder) {
  const std::string name = folder + "/pause.lock";
  return ::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
}

}  // namespace

std::string pause_file(const std::string& folder) { return folder + "/pause.json"; }

Result<std::optional<node::OwnerOrder>> read_pause_file(const std::string& folder) {
  const std::string path = pause_file(folder);
  const auto bytes = read_private_file(path, 4 * limits::kKiB);
  if (!bytes.ok() && bytes.error().code == ErrorCode::kNotFound) {
    return std::optional<node::OwnerOrder>();
  }
  TRY_VOID(bytes);
  const Json json = Json::parse(as_text(*bytes), nullptr, false);
  const bool ours = json.is_object() && json.contains("drain") && json["drain"].is_boolean() &&
                    json.contains("until") && json["until"].is_number_integer();
  REQUIRE(ours, path + " is no file of hearth pause; hearth resume removes it");
  return std::optional(
      node::OwnerOrder{json["drain"].get<bool>(), json["until"].get<std::int64_t>()});
}

Status write_pause_file(const std::string& folder, const node::OwnerOrder& order) {
  TRY_VOID(make_private_folder(folder));
  const std::string text = Json{{"drain", order.drain}, {"until", order.until}}.dump() + "\n";
  return write_private_file(pause_file(folder), as_bytes(text));
}

Result<bool> remove_pause_file(const std::string& folder) {
  const std::string path = pause_file(folder);
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return Error{ErrorCode::kIo, "removing " + path + ": " + std::strerror(errno)};
}

WorkShare::WorkShare(const std::string& folder) : lock_(open_lock(folder)) {}

WorkShare::~WorkShare() {
  if (lock_ >= 0) ::close(lock_);
}

void WorkShare::hold(bool wanted) {
  if (lock_ < 0 || wanted == held_) return;
  if (::flock(lock_, wanted ? LOCK_SH | LOCK_NB : LOCK_UN) == 0) held_ = wanted;
}

Result<bool> workers_work(const std::string& folder) {
  const int lock = open_lock(folder);
  if (lock < 0) {
    return Error{ErrorCode::kIo, "opening " + folder + "/pause.lock: " + std::strerror(errno)};
  }
  const bool free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  ::close(lock);
  return !free;
}

}  // namespace hearth::cli
