#include "base/private_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/descriptor.h"
#include "base/hex.h"

namespace hearth {
namespace {

constexpr std::string_view kKeyFileHead = "hearth ed25519 secret key v1\n";
constexpr std::size_t kKeyFileBytes = kKeyFileHead.size() + 2 * SecretKey::kSeedBytes + 1;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
constexpr std::string_view kDraftEnd = ".draft-";  // and six characters

Error io_error(const std::string& what) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return Error::of(ErrorCode::kIo, what, ": ", std::strerror(errno),
                   (full ? "; make room on this disk" : ""));
}

Status check_private(const std::string& path, const struct stat& found, std::size_t limit) {
  REQUIRE(S_ISREG(found.st_mode), path, " is not a plain file; remove it: rm ", path);
  REQUIRE(found.st_uid == ::geteuid(), path, " belongs to user ", found.st_uid,
          ", not to the user that runs hearth; repair: chown ", ::geteuid(), " ", path);
  REQUIRE((found.st_mode & kOthers) == 0, path, " is open to other users; repair: chmod 600 ",
          path);
  REQUIRE(static_cast<std::size_t>(found.st_size) <= limit, path, " has ", found.st_size,
          " bytes; the limit is ", limit);
  return ok_status();
}

Status write_all(int file, ByteSpan bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return io_error("writing " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok_status();
}

// The folder's own entry for a file is data of the folder.
void sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.open()) (void)::fsync(*opened);
}

struct Draft {
  std::string path;
  Descriptor file;  // locked while a process uses the draft
};

Result<Draft> open_draft(const std::string& path) {
  while (true) {
    Draft draft{path + std::string(kDraftEnd) + "XXXXXX", {}};
    draft.file = Descriptor(::mkostemp(draft.path.data(), O_CLOEXEC));  // mode 0600
    if (!draft.file.open()) return io_error("writing " + path);
    struct stat found {};
    const bool cleared = ::flock(*draft.file, LOCK_EX) == 0 && ::fstat(*draft.file, &found) == 0 &&
                         found.st_nlink == 0;
    if (!cleared) return draft;
  }
}

// A draft beside the file, whole and on the disk.
Result<Draft> write_draft(const std::string& path, ByteSpan bytes) {
  TRY(Draft draft, open_draft(path));
  Status written = write_all(*draft.file, bytes, draft.path);
  if (written.ok() && ::fsync(*draft.file) != 0) written = io_error("writing " + draft.path);
  if (written.ok()) return draft;
  ::unlink(draft.path.c_str());
  return written.error();
}

// Removes drafts that a killed process left; drafts of running processes are locked.
void clear_drafts(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t end = name.rfind(kDraftEnd);
    if (end == std::string::npos || name.size() != end + kDraftEnd.size() + 6) continue;
    const Descriptor draft(
        ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (draft.open() && ::flock(*draft, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
}

}  // namespace

Result<Bytes> read_private_file(const std::string& path, std::size_t limit) {
  // O_NONBLOCK: a FIFO of that name must not block; it changes nothing for a plain file.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.open() && errno == ENOENT) {
    return Error::of(ErrorCode::kNotFound, "file ", path, " does not exist");
  }
  REQUIRE(file.open() || errno != ELOOP, path, " is a symbolic link; remove it: rm ", path);
  if (!file.open()) return io_error("opening " + path);
  struct stat found {};
  if (::fstat(*file, &found) != 0) return io_error("reading " + path);
  TRY_VOID(check_private(path, found, limit));
  Bytes bytes(limit + 1);
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(*file, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("reading " + path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  REQUIRE(filled <= limit, path, " grew past its limit of ", limit, " bytes");
  bytes.resize(filled);
  return bytes;
}

Status write_private_file(const std::string& path, ByteSpan bytes) {
  TRY(const Draft draft, write_draft(path, bytes));
  if (::rename(draft.path.c_str(), path.c_str()) != 0) {
    const Error error = io_error("writing " + path);
    ::unlink(draft.path.c_str());
    return error;
  }
  sync_folder_of(path);
  return ok_status();
}

Status make_private_folder(const std::string& path) {
  std::error_code error;
  const bool existed = std::filesystem::exists(path, error);
  std::filesystem::create_directories(path, error);
  if (error) return Error::of(ErrorCode::kIo, "data folder ", path, ": ", error.message());
  if (!existed) ::chmod(path.c_str(), S_IRWXU);
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return Error::of(ErrorCode::kIo, "data folder ", path, ": ", std::strerror(errno));
  }
  // A user who may write there may replace any of our files.
  REQUIRE(found.st_uid == ::geteuid(), "the folder ", path, " belongs to user ", found.st_uid,
          ", not to the one that runs this; choose another, or: chown ", ::geteuid(), " ", path);
  REQUIRE((found.st_mode & (S_IWGRP | S_IWOTH)) == 0, "other users may write in the folder ", path,
          "; to fix that: chmod go-w ", path);
  clear_drafts(path);
  return ok_status();
}

Result<SecretKey> read_key_file(const std::string& path) {
  TRY(Bytes bytes, read_private_file(path, kKeyFileBytes));
  const std::string_view text = as_text(bytes);
  std::optional<Bytes> seed;
  if (text.size() == kKeyFileBytes && text.starts_with(kKeyFileHead) && text.back() == '\n') {
    seed = from_hex(text.substr(kKeyFileHead.size(), 2 * SecretKey::kSeedBytes));
  }
  REQUIRE(seed.has_value(), path, " is not a key file of hearth");
  auto key = SecretKey::from_seed(*seed);
  wipe(*seed);
  wipe(bytes);
  return key;
}

Status write_key_file(const std::string& path, const SecretKey& key) {
  std::string text(kKeyFileHead);
  text += to_hex(key.seed()) + "\n";
  auto draft = write_draft(path, as_bytes(text));
  wipe({reinterpret_cast<std::byte*>(text.data()), text.size()});
  if (!draft) return draft.error();
  // link(), unlike rename(), fails if the name exists.
  const bool linked = ::link(draft->path.c_str(), path.c_str()) == 0;
  const int why = errno;
  ::unlink(draft->path.c_str());
  REQUIRE(linked || why != EEXIST, path, " exists already; no key is overwritten");
  if (!linked) return Error::of(ErrorCode::kIo, "writing ", path, ": ", std::strerror(why));
  sync_folder_of(path);
  return ok_status();
}

Result<SecretKey> own_key_file(const std::string& path) {
  auto found = read_key_file(path);
  if (found || found.error().code != ErrorCode::kNotFound) return found;
  const SecretKey key = SecretKey::generate();
  const Status written = write_key_file(path, key);
  if (written) return key;
  // Two processes may begin at once: the one that came first has written the key of both.
  return read_key_file(path);
}

}  // namespace hearth
