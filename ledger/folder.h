// LogFolder: the disk of a log, as files of one folder by name ("tile/0/000"). It is the only place
// where a log meets the operating system, so that tests can simulate a power loss at any point.
//
// Contents and names become durable separately, as on any Unix. write() makes a file's contents
// durable; its name is durable after sync_names() of every folder on its path. One thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace hearth::ledger {

class LogFolder {
 public:
  struct File {
    std::string name;
    ByteSpan bytes;
  };

  virtual ~LogFolder() = default;

  // kNotFound when the file does not exist; kInvalidInput when it is longer than `limit` bytes or
  // is not a plain file.
  virtual Result<Bytes> read(const std::string& name, std::size_t limit) = 0;
  // Creates or overwrites each file, and the folders on its path. On return all bytes are on the
  // disk. After an error the state of each file is unknown.
  virtual Status write(std::span<const File> files) = 0;
  // Makes the names in this folder ("" or "tile/0/") durable: created, renamed and removed ones.
  virtual Status sync_names(const std::string& folder) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  virtual Status remove(const std::string& name) = 0;  // a file, or an empty folder ("tile/0/")
  // A folder with its files; it has no folders in it.
  virtual Status remove_folder(const std::string& folder);
  // The names in a folder in byte order, folders with a slash. kNotFound: no such folder.
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
  // Bytes on its disk that this process may still use; nothing: unknown.
  virtual std::optional<std::uint64_t> free_bytes() { return std::nullopt; }
};

// Puts a file of the folder itself in place of an older one. After a crash either is there.
Status replace_file(LogFolder& folder, const std::string& name, ByteSpan bytes);

// kRead: another process may append meanwhile. kWrite: excludes other writers until the result is
// destroyed; kUnavailable when another one has the folder. kCreate: as kWrite, and makes the
// folder.
enum class LogAccess { kRead, kWrite, kCreate };
// kNotFound when the folder does not exist.
Result<std::unique_ptr<LogFolder>> open_log_folder(const std::string& path, LogAccess access);

}  // namespace hearth::ledger
