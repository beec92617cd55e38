// serve.json in the data folder: where the server that runs there is reached. It exists while the
// server runs; a lock beside it keeps a second server out of the folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hearth::cli {

struct ServerInfo {
  std::string api;      // http://host:port
  std::string control;  // host:port that workers dial
  std::string data;     // host:port of the coordinator's data links
  std::string model;
  std::int64_t pid = 0;
  std::string listens = {};  // the host that the API listens at; 0.0.0.0 and :: are all
};

// kUnavailable when no server runs there. An empty folder name means data_dir().
Result<ServerInfo> read_server_file(const std::string& folder);

class ServerFile {
 public:
  // Creates the folder (0700) and takes its lock; kIo, naming the folder, when a server has it.
  static Result<std::unique_ptr<ServerFile>> lock(const std::string& folder);
  ~ServerFile();  // removes the file
  ServerFile(const ServerFile&) = delete;
  ServerFile& operator=(const ServerFile&) = delete;

  Status write(const ServerInfo& info);  // at once or not at all

 private:
  ServerFile(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::string folder_;
  int lock_;
};

// Whether the process holds a lock on the file with that inode, by the text of /proc/locks. Trying
// the lock instead could stop a server that starts at that moment.
bool holds_lock(std::string_view locks, std::int64_t pid, std::uint64_t inode);

}  // namespace hearth::cli
