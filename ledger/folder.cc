#include "ledger/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"

namespace hearth::ledger {
namespace {

constexpr mode_t kFileMode = 0644;  // nothing secret: the folder above restricts access
constexpr mode_t kFolderMode = 0755;

class DiskFolder final : public LogFolder {
 public:
  DiskFolder(std::string path, Descriptor root) : path_(std::move(path)), root_(std::move(root)) {}

  Result<Bytes> read(const std::string& name, std::size_t limit) override;
  Status write(std::span<const File> files) override;
  Status sync_names(const std::string& folder) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& name) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  std::optional<std::uint64_t> free_bytes() override {
    struct statvfs disk = {};
    if (::fstatvfs(*root_, &disk) != 0) return std::nullopt;
    return std::uint64_t{disk.f_bavail} * disk.f_frsize;
  }

 private:
  Error failed(const std::string& what, const std::string& name) const {
    return {errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
            what + " " + path_ + "/" + name + ": " + std::strerror(errno)};
  }
  // A link or a special file in place of a log's file is kInvalidInput.
  Error unreadable(const std::string& what, const std::string& name) const {
    const bool is_other = errno == ELOOP || errno == ENOTDIR || errno == ENXIO || errno == ENODEV;
    const Error error = failed(what, name);
    return is_other ? Error::invalid(error.message) : error;
  }
  Descriptor open(const std::string& name, int flags) const {
    return Descriptor(
        ::openat(*root_, name.empty() ? "." : name.c_str(), flags | O_CLOEXEC, kFileMode));
  }
  Status make_folders(const std::string& name) const;
  Status write_all(int file, const File& what) const;

  std::string path_;
  Descriptor root_;
};

Result<Bytes> DiskFolder::read(const std::string& name, std::size_t limit) {
  const Descriptor file = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (*file < 0) return unreadable("opening", name);
  struct stat found {};
  if (::fstat(*file, &found) != 0) return failed("reading", name);
  REQUIRE(S_ISREG(found.st_mode), path_, "/", name, " is not a plain file");
  REQUIRE(found.st_size >= 0 && static_cast<std::size_t>(found.st_size) <= limit, path_, "/", name,
          " has ", found.st_size, " bytes; at most ", limit, " can be right");
  Bytes bytes(static_cast<std::size_t>(found.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(*file, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("reading", name);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

Status DiskFolder::make_folders(const std::string& name) const {
  for (std::size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const std::string folder = name.substr(0, slash);
    if (::mkdirat(*root_, folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return failed("making", folder);
    }
  }
  return ok_status();
}

Status DiskFolder::write_all(int file, const File& what) const {
  ByteSpan bytes = what.bytes;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed("writing", what.name);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok_status();
}

Status DiskFolder::write(std::span<const File> files) {
  // All files are written before the first sync, so that the disk gets them together. Each is
  // synced through the descriptor that wrote it, because only that one is sure to report its write
  // errors.
  constexpr std::size_t kOpen = 64;
  for (std::size_t begin = 0; begin < files.size(); begin += kOpen) {
    const auto some = files.subspan(begin, std::min(kOpen, files.size() - begin));
    std::vector<Descriptor> opened;
    opened.reserve(some.size());
    for (const File& file : some) {
      constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
      opened.push_back(open(file.name, kFlags));
      if (*opened.back() < 0 && errno == ENOENT) {
        TRY_VOID(make_folders(file.name));
        opened.pop_back();
        opened.push_back(open(file.name, kFlags));
      }
      if (*opened.back() < 0) return failed("writing", file.name);
      TRY_VOID(write_all(*opened.back(), file));
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (::fsync(*opened[i]) != 0) return failed("syncing", some[i].name);
    }
  }
  return ok_status();
}

Status DiskFolder::sync_names(const std::string& folder) {
  const Descriptor opened = open(folder, O_RDONLY | O_DIRECTORY);
  if (*opened < 0 || ::fsync(*opened) != 0) return failed("syncing", folder);
  return ok_status();
}

Status DiskFolder::rename(const std::string& from, const std::string& to) {
  if (::renameat(*root_, from.c_str(), *root_, to.c_str()) != 0) return failed("renaming", from);
  return ok_status();
}

Status DiskFolder::remove(const std::string& name) {
  const int flags = name.ends_with('/') ? AT_REMOVEDIR : 0;
  if (::unlinkat(*root_, name.c_str(), flags) != 0) return failed("removing", name);
  return ok_status();
}

Result<std::vector<std::string>> DiskFolder::list(const std::string& folder) {
  const int opened =
      ::openat(*root_, folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return unreadable("listing", folder);
  DIR* entries = ::fdopendir(opened);
  if (entries == nullptr) {
    const Error error = failed("listing", folder);
    ::close(opened);
    return error;
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries)) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat found {};
    const std::string whole = folder + name;
    const bool is_folder = ::fstatat(*root_, whole.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                           S_ISDIR(found.st_mode);
    names.push_back(is_folder ? name + "/" : name);
  }
  ::closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Status LogFolder::remove_folder(const std::string& folder) {
  TRY(const auto names, list(folder));
  for (const std::string& name : names) TRY_VOID(remove(folder + name));
  return remove(folder);
}

Status replace_file(LogFolder& folder, const std::string& name, ByteSpan bytes) {
  const LogFolder::File draft{name + ".new", bytes};
  TRY_VOID(folder.write({&draft, 1}));
  TRY_VOID(folder.rename(draft.name, name));
  return folder.sync_names("");
}

Result<std::unique_ptr<LogFolder>> open_log_folder(const std::string& path, LogAccess access) {
  const auto failed = [&](const char* what) {
    return Error{errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 std::string(what) + " " + path + ": " + std::strerror(errno)};
  };
  if (access == LogAccess::kCreate && ::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return failed("making");
  }
  Descriptor root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (*root < 0) return failed("opening");
  if (access != LogAccess::kRead && ::flock(*root, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed("locking");
    return Error::of(ErrorCode::kUnavailable, "another process appends to the log in ", path);
  }
  if (access == LogAccess::kCreate) {
    const Descriptor above(::open((path + "/..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (*above < 0 || ::fsync(*above) != 0) return failed("syncing the folder of");
  }
  return std::unique_ptr<LogFolder>(std::make_unique<DiskFolder>(path, std::move(root)));
}

}  // namespace hearth::ledger
