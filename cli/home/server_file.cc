#include "cli/home/server_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process/loop.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

std::string text_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Error io_error(const std::string& what) {
  return {ErrorCode::kIo, what + ": " + std::strerror(errno)};
}

}  // namespace

Result<ServerInfo> read_server_file(const std::string& folder) {
  const std::string path = data_folder(folder) + "/serve.json";
  std::ifstream file(path);
  const auto json = file ? nlohmann::json::parse(file, nullptr, false) : nlohmann::json();
  if (!json.is_object() || text_of(json, "control").empty()) {
    return Error{ErrorCode::kUnavailable,
                 "no server runs with the data folder " + data_folder(folder) +
                     "; start one (hearth serve --model MODEL) or name its control address"};
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
  if (lock < 0) return io_error("opening " + name);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return Error{ErrorCode::kIo, "another server runs with the data folder " + path +
                                     "; stop it, or choose another with --data-dir"};
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
  const std::string name = folder_ + "/serve.json";
  const std::string draft = name + ".new";
  std::FILE* file = std::fopen(draft.c_str(), "w");
  if (file == nullptr) return io_error("writing " + draft);
  const std::string text = json.dump(2) + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) return io_error("writing " + draft);
  if (std::rename(draft.c_str(), name.c_str()) != 0) return io_error("renaming " + draft);
  return ok_status();
}

}  // namespace hearth::cli
