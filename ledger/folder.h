// The disk of a log: files of one folder by their names ("tile/0/000"), and when they are safe. The
// one place where a log meets the operating system, so that tests can lose power at any point.
//
// Contents and names become durable apart, as on any Unix: a file is safe after write(), but found
// again only after sync_names() of every folder that its path makes. One thread.
#pragma once

#include <memory>
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

  // kNotFound when there is none; kInvalidInput when it is longer than `limit`, or no plain file.
  virtual Result<Bytes> read(const std::string& name, std::size_t limit) = 0;
  // Creates or overwrites each, and the folders on its way. When it returns, all of their bytes are
  // on the disk. After an error nothing is known of any of them.
  virtual Status write(std::span<const File> files) = 0;
  // What this folder ("" or "tile/0/") contains is durable: files and folders made, renamed,
  // removed.
  virtual Status sync_names(const std::string& folder) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;  // over what is there
  virtual Status remove(const std::string& name) = 0;  // a file, or an empty folder with its slash
  // Names in it in byte order, folders with a slash. kNotFound when there is no such folder.
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
};

// kRead takes what is there while another process may append. kWrite keeps other writers out until
// the result is gone: kUnavailable when there is one. kCreate makes the folder where there is none.
enum class LogAccess { kRead, kWrite, kCreate };
// kNotFound when there is no such folder.
Result<std::unique_ptr<LogFolder>> open_log_folder(const std::string& path, LogAccess access);

}  // namespace hearth::ledger
