#include "coordinator/store/stored_log.h"

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/store/place.h"
#include "coordinator/store/postgres_database.h"
#include "ledger/archive.h"
#include "ledger/dispute/evidence.h"
#include "ledger/note.h"
#include "ledger/scan.h"

namespace hearth::coordinator {
namespace {

using ledger::LogAccess;
using ledger::LogFolder;

constexpr auto kPauseWhileAway = std::chrono::milliseconds(100);
constexpr std::size_t kCopyFiles = 64;
constexpr std::size_t kCopyBytes = std::size_t{16} << 20;
constexpr std::size_t kFileBytes = std::size_t{64} << 20;  // no file of a log is larger
constexpr const char* kMovedCheckpoint = "checkpoint.moved";

std::string log_path(const std::string& folder) { return folder + "/ledger"; }

bool is_away(const Status& done) {
  return !done.ok() && done.error().code == ErrorCode::kUnavailable;
}

// Rows have no folders of their own: a folder is there while a name begins with it.
class StoredLogFolder final : public LogFolder {
 public:
  StoredLogFolder(PostgresDatabase& db, std::shared_ptr<const std::atomic<bool>> stops)
      : db_(db), stops_(std::move(stops)) {}
  StoredLogFolder(std::unique_ptr<PostgresDatabase> db,
                  std::shared_ptr<const std::atomic<bool>> stops)
      : owned_(std::move(db)), db_(*owned_), stops_(std::move(stops)) {}

  Result<Bytes> read(const std::string& name, std::size_t limit) override;
  Status write(std::span<const File> files) override;
  Status sync_names(const std::string& /*folder*/) override { return ok_status(); }  // at COMMIT
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& name) override;
  Status remove_folder(const std::string& folder) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;

 private:
  template <typename Work>
  Status persist(Work work);
  Error missing(const std::string& name) const {
    return Error::of(ErrorCode::kNotFound, "the store ", db_.shown(), " has no file ", name);
  }

  const std::unique_ptr<PostgresDatabase> owned_;
  PostgresDatabase& db_;
  const std::shared_ptr<const std::atomic<bool>> stops_;  // null: it does not wait
};

// A COMMIT whose answer was lost may have been done, so each work can be done again: `again`.
template <typename Work>
Status StoredLogFolder::persist(Work work) {
  for (bool again = false;; again = true) {
    Status done = db_.make_ready();
    if (done.ok()) done = db_.transaction([&] { return work(again); });
    if (!is_away(done) || stops_ == nullptr || stops_->load()) return done;
    std::this_thread::sleep_for(kPauseWhileAway);
  }
}

Result<Bytes> StoredLogFolder::read(const std::string& name, std::size_t limit) {
  TRY_VOID(db_.make_ready());
  Statement row(db_,
                "SELECT CASE WHEN octet_length(bytes) <= $1 THEN bytes ELSE ''::bytea END, "
                "octet_length(bytes)::bigint FROM ledger_files WHERE name = $2");
  TRY(const bool there, row.add(limit, name).step());
  if (!there) return missing(name);
  REQUIRE(row.number(1) <= static_cast<std::int64_t>(limit), "the file ", name, " in the store ",
          db_.shown(), " has ", row.number(1), " bytes; at most ", limit, " can be right");
  const ByteSpan bytes = row.blob(0);
  return Bytes(bytes.begin(), bytes.end());
}

Status StoredLogFolder::write(std::span<const File> files) {
  return persist([&](bool /*again*/) -> Status {
    for (const File& file : files) {
      TRY_VOID(Statement(db_,
                         "INSERT INTO ledger_files (name, bytes) VALUES ($1, $2) ON CONFLICT "
                         "(name) DO UPDATE SET bytes = excluded.bytes")
                   .add(file.name, file.bytes)
                   .run());
    }
    return ok_status();
  });
}

Status StoredLogFolder::rename(const std::string& from, const std::string& to) {
  return persist([&](bool again) -> Status {
    Statement source(db_, "SELECT 1 FROM ledger_files WHERE name = $1");
    TRY(const bool there, source.add(from).step());
    if (!there && again) return ok_status();
    if (!there) return missing(from);
    TRY_VOID(Statement(db_, "DELETE FROM ledger_files WHERE name = $1").add(to).run());
    TRY_VOID(
        Statement(db_, "UPDATE ledger_files SET name = $1 WHERE name = $2").add(to, from).run());
    return ok_status();
  });
}

Status StoredLogFolder::remove(const std::string& name) {
  if (name.ends_with('/')) return ok_status();
  return persist([&](bool again) -> Status {
    TRY(const bool there,
        Statement(db_, "DELETE FROM ledger_files WHERE name = $1").add(name).run());
    return there || again ? ok_status() : missing(name);
  });
}

// What follows all names that begin with the folder: its last character is a slash.
std::string end_of(const std::string& folder) {
  return folder.empty() ? "~" : folder.substr(0, folder.size() - 1) + static_cast<char>('/' + 1);
}

// In one transaction, which costs as much as one for each file. A folder without files costs none.
Status StoredLogFolder::remove_folder(const std::string& folder) {
  const auto names = list(folder);
  if (!names) return names.error();
  return persist([&](bool /*again*/) -> Status {
    TRY_VOID(Statement(db_, "DELETE FROM ledger_files WHERE name >= $1 AND name < $2")
                 .add(folder, end_of(folder))
                 .run());
    return ok_status();
  });
}

Result<std::vector<std::string>> StoredLogFolder::list(const std::string& folder) {
  TRY_VOID(db_.make_ready());
  Statement row(db_,
                "SELECT DISTINCT substring(substr(name, length($1) + 1) FROM '^[^/]*/?') COLLATE "
                "\"C\" FROM ledger_files WHERE name >= $1 AND name < $2 ORDER BY 1");
  row.add(folder, end_of(folder));
  std::vector<std::string> names;
  while (true) {
    TRY(const bool there, row.step());
    if (!there) break;
    names.push_back(row.text(0));
  }
  if (names.empty() && !folder.empty()) return missing(folder);
  return names;
}

// Copies some files at once.
class Copy {
 public:
  Copy(LogFolder& from, LogFolder& to) : from_(from), to_(to) {}

  Status add(const std::string& name) {
    TRY(Bytes bytes, from_.read(name, kFileBytes));
    bytes_ += bytes.size();
    files_.emplace_back(name, std::move(bytes));
    return files_.size() < kCopyFiles && bytes_ < kCopyBytes ? ok_status() : flush();
  }
  Status add_folder(const std::string& folder) {
    const auto names = from_.list(folder);
    if (!names && names.error().code == ErrorCode::kNotFound) return ok_status();
    if (!names) return names.error();
    for (const std::string& name : *names) {
      TRY_VOID(name.ends_with('/') ? add_folder(folder + name) : add(folder + name));
    }
    folders_.push_back(folder);
    return ok_status();
  }
  Status finish() {
    TRY_VOID(flush());
    for (const std::string& folder : folders_) TRY_VOID(to_.sync_names(folder));
    return ok_status();
  }

 private:
  Status flush() {
    std::vector<LogFolder::File> files;
    for (const auto& [name, bytes] : files_) files.push_back({name, bytes});
    TRY_VOID(to_.write(files));
    files_.clear();
    bytes_ = 0;
    return ok_status();
  }

  LogFolder& from_;
  LogFolder& to_;
  std::vector<std::pair<std::string, Bytes>> files_;
  std::size_t bytes_ = 0;
  std::vector<std::string> folders_;  // that have been copied, the inner ones first
};

// The checkpoint comes last: without one, there is no log.
Status copy_log(LogFolder& from, LogFolder& to) {
  Copy copy(from, to);
  TRY_VOID(copy.add_folder("tile/"));
  TRY_VOID(copy.add_folder(std::string(ledger::kWitnessFolder)));
  TRY_VOID(copy.add_folder(std::string(ledger::kEvidenceFolder)));
  TRY(const auto top, from.list(""));
  for (const std::string& name : top) {
    if (name == ledger::kArchiveFile || name == ledger::kSnapshotFile) TRY_VOID(copy.add(name));
  }
  TRY_VOID(copy.finish());
  TRY(const Bytes checkpoint, from.read(std::string(ledger::kCheckpointFile), kFileBytes));
  return ledger::replace_file(to, std::string(ledger::kCheckpointFile), checkpoint);
}

Result<bool> has_log(LogFolder& folder) {
  const auto found = folder.read(std::string(ledger::kCheckpointFile), kFileBytes);
  if (!found && found.error().code != ErrorCode::kNotFound) return found.error();
  return found.ok();
}

// The log on the disk; null: it has none.
Result<std::unique_ptr<LogFolder>> log_on_disk(const std::string& folder, LogAccess access) {
  auto disk = ledger::open_log_folder(log_path(folder), access);
  if (!disk && disk.error().code == ErrorCode::kNotFound) return std::unique_ptr<LogFolder>();
  if (!disk) return disk.error();
  TRY(const bool on_disk, has_log(**disk));
  if (!on_disk) disk->reset();
  return disk;
}

// The log on the disk may be an earlier state of the stored one, which was not put away in time.
Status check_continues(LogFolder& stored, LogFolder& disk, const std::string& folder) {
  TRY(const Bytes bytes, disk.read(std::string(ledger::kCheckpointFile), kFileBytes));
  ledger::ScanOptions scan;
  TRY(scan.earlier, ledger::parse_checkpoint(bytes));
  TRY(const auto archive, ledger::read_archive_note(stored));
  if (archive) scan.by_hash = archive->entries;
  const auto found = ledger::scan_log(
      stored, scan, [](std::uint64_t, ByteSpan, const Hash256&) { return ok_status(); });
  if (found.ok()) return ok_status();
  if (found.error().code == ErrorCode::kUnavailable) return found.error();
  return Error::invalid("the store has a log already, and the folder ", log_path(folder),
                        " has another one of the same cluster; if that one is not used any more, "
                        "move it away (",
                        found.error().message, ")");
}

Status import_if_new(LogFolder& stored, LogFolder& disk, const std::string& folder) {
  TRY(const bool is_stored, has_log(stored));
  return is_stored ? check_continues(stored, disk, folder) : copy_log(disk, stored);
}

Status retire(LogFolder& disk) {
  TRY_VOID(disk.rename(std::string(ledger::kCheckpointFile), kMovedCheckpoint));
  return disk.sync_names("");
}

Status import_log(const std::string& folder, LogFolder& stored) {
  TRY(const auto disk, log_on_disk(folder, LogAccess::kWrite));
  if (disk == nullptr) return ok_status();
  TRY_VOID(import_if_new(stored, *disk, folder));
  return retire(*disk);
}

Result<std::unique_ptr<StoredLogFolder>> open_stored(
    const StoreUrl& url, const LeaseTerm& term, std::shared_ptr<const std::atomic<bool>> stops) {
  PostgresOptions options{url, Database::Flush::kEveryCommit,
                          term.epoch > 0 ? kFencedWait : kCommandWait};
  options.term = term;
  options.counts = false;
  TRY(auto db, PostgresDatabase::open(options));
  return std::make_unique<StoredLogFolder>(std::move(db), std::move(stops));
}

// Evidence contains the tokens of requests. A log's files are for all users that reach them.
Status make_evidence_private(const std::string& folder) {
  using std::filesystem::perms;
  const auto path = std::filesystem::path(log_path(folder)) / ledger::kEvidenceFolder;
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (!failed) std::filesystem::permissions(path, perms::owner_all, failed);
  if (!failed) {
    for (const auto& file : std::filesystem::directory_iterator(path, failed)) {
      if (!failed) permissions(file.path(), perms::owner_read | perms::owner_write, failed);
    }
  }
  if (!failed) return ok_status();
  return Error::of(ErrorCode::kIo, "cannot keep ", path.string(), ": ", failed.message());
}

}  // namespace

Result<std::unique_ptr<LogFolder>> open_stored_log(const std::string& folder, const LeaseTerm& term,
                                                   std::shared_ptr<const std::atomic<bool>> stops) {
  TRY(const auto url, read_store_url(folder));
  REQUIRE(url.has_value() && term.epoch > 0, "the log of ", folder, " is not in a shared store");
  TRY(auto stored, open_stored(*url, term, std::move(stops)));
  TRY_VOID(import_log(folder, *stored));
  return ledger::with_archive(std::move(stored));
}

Status check_log_on_disk(const std::string& folder) {
  TRY(const auto url, read_store_url(folder));
  if (!url) return ok_status();
  TRY(const auto disk, log_on_disk(folder, LogAccess::kRead));
  if (disk == nullptr) return ok_status();
  TRY(const auto stored, open_stored(*url, {}, nullptr));
  TRY(const bool is_stored, has_log(*stored));
  return is_stored ? check_continues(*stored, *disk, folder) : ok_status();
}

Status import_log_of_folder(PostgresDatabase& db, const std::string& folder) {
  StoredLogFolder stored(db, nullptr);
  TRY(const auto disk, log_on_disk(folder, LogAccess::kWrite));
  return disk == nullptr ? ok_status() : import_if_new(stored, *disk, folder);
}

Status retire_log_on_disk(const std::string& folder) {
  TRY(const auto disk, log_on_disk(folder, LogAccess::kWrite));
  return disk == nullptr ? ok_status() : retire(*disk);
}

Result<bool> has_stored_log(const std::string& folder) {
  TRY(const auto url, read_store_url(folder));
  if (!url) return false;
  TRY(const auto stored, open_stored(*url, {}, nullptr));
  return has_log(*stored);
}

Result<std::unique_ptr<LogFolder>> open_log_to_read(const std::string& folder,
                                                    const std::string& path,
                                                    const std::string& archive) {
  TRY(const auto url, read_store_url(folder));
  if (url) {
    TRY(auto stored, open_stored(*url, {}, nullptr));
    TRY(const bool is_stored, has_log(*stored));
    if (is_stored) return ledger::with_archive(std::move(stored), archive);
  }
  return ledger::open_archived_log(path, LogAccess::kRead, archive);
}

Status export_stored_log(PostgresDatabase& db, const std::string& folder) {
  StoredLogFolder stored(db, nullptr);
  TRY(const bool is_stored, has_log(stored));
  if (!is_stored) return ok_status();
  TRY(const auto disk, ledger::open_log_folder(log_path(folder), LogAccess::kCreate));
  TRY(const bool on_disk, has_log(*disk));
  REQUIRE(!on_disk, "the folder ", log_path(folder), " has a log already; move it away");
  // What was there before the log went into the store.
  std::error_code failed;
  std::filesystem::remove_all(log_path(folder) + "/tile", failed);
  std::filesystem::remove(log_path(folder) + "/" + kMovedCheckpoint, failed);
  TRY_VOID(make_evidence_private(folder));
  TRY_VOID(copy_log(stored, *disk));
  return make_evidence_private(folder);
}

}  // namespace hearth::coordinator
