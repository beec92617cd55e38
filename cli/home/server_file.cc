#include "cli/home/server_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/private_file.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

std::string text_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<ServerInfo> read_server_file(const std::string& folder) {
  const std::string path = data_folder(folder) + "/serve.json";
  std::ifstream file(path);
  const auto json = file ? nlohmann::json::parse(file, nullptr, false) : nlohmann::json();
  if (!json.is_object() || text_of(json, "control").empty()) {
    return Error::of(ErrorCode::kUnavailable, "no server runs with the data folder ",
                     data_folder(folder),
                     "; start one (hearth serve --model MODEL), or pass its control address");
  }
  ServerInfo info;
  info.api = text_of(json, "api");
  info.control = text_of(json, "control");
  info.data = text_of(json, "data");
  info.model = text_of(json, "model");
  info.listens = text_of(json, "listens");
  const auto pid = json.find("pid");
  if (pid != json.end() && pid->is_number_integer()) info.pid = pid->get<std::int64_t>();
  return info;
}

Result<std::unique_ptr<ServerFile>> ServerFile::lock(const std::string& folder) {
  const std::string path = data_folder(folder);
  TRY_VOID(make_private_folder(path));
  const std::string name = path + "/serve.lock";
  const int lock = ::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (lock < 0) return Error::of(ErrorCode::kIo, "opening ", name, ": ", std::strerror(errno));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return Error::of(ErrorCode::kIo, "the server of the data folder ", path,
                     " runs; stop it first, or pass another --data-dir");
  }
  return std::unique_ptr<ServerFile>(new ServerFile(path, lock));
}

ServerFile::~ServerFile() {
  ::unlink((folder_ + "/serve.json").c_str());
  ::close(lock_);
}

Status ServerFile::write(const ServerInfo& info) {
  const nlohmann::json json = {{"api", info.api},   {"control", info.control},
                               {"data", info.data}, {"model", info.model},
                               {"pid", info.pid},   {"listens", info.listens}};
  return write_private_file(folder_ + "/serve.json", as_bytes(json.dump(2) + "\n"));
}

bool holds_lock(std::string_view locks, std::int64_t pid, std::uint64_t inode) {
  // 1: FLOCK  ADVISORY  WRITE 1234 08:01:131081 0 EOF
  const std::string file = ":" + std::to_string(inode) + " ";
  const std::string process = " " + std::to_string(pid) + " ";
  while (!locks.empty()) {
    const std::string_view line = locks.substr(0, locks.find('\n'));
    locks.remove_prefix(std::min(locks.size(), line.size() + 1));
    const bool waits = line.find("->") != std::string_view::npos;
    if (!waits && line.find("FLOCK") != std::string_view::npos &&
        line.find(file) != std::string_view::npos && line.find(process) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace hearth::cli
