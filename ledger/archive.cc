#include "ledger/archive.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ledger/entry.h"
#include "ledger/scan.h"

namespace hearth::ledger {
namespace {

constexpr std::size_t kNoteBytes = 8'192;
constexpr std::string_view kNoteHead = "hearth archive v1\nentries ";
constexpr std::string_view kNoteFolder = "\nfolder ";
constexpr std::size_t kBundlesAtOnce = 64;

std::string note_text(const ArchiveNote& note) {
  return std::string(kNoteHead) + std::to_string(note.entries) + std::string(kNoteFolder) +
         note.folder + "\n";
}

Result<ArchiveNote> parse_archive_note(std::string_view text) {
  ArchiveNote note;
  const std::string_view whole = text;
  const bool has_head = text.starts_with(kNoteHead);
  if (has_head) text.remove_prefix(kNoteHead.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), note.entries);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (has_head && error == std::errc() && text.starts_with(kNoteFolder) && text.ends_with('\n')) {
    text.remove_prefix(kNoteFolder.size());
    note.folder = text.substr(0, text.size() - std::min<std::size_t>(text.size(), 1));
  }
  const bool is_right = note.entries > 0 && !note.folder.empty() && note.folder.front() == '/' &&
                        note.folder.find('\n') == std::string::npos &&
                        note.entries % kTileWidth == 0 && note.entries <= limits::kLogEntries &&
                        note_text(note) == whole;
  REQUIRE(is_right, kArchiveFile,
          ": it must have the lines 'hearth archive v1', 'entries N' with whole "
          "bundles of 256, and 'folder' with an absolute path");
  return note;
}

// A log's folder that gets missing bundles elsewhere.
class Beside : public LogFolder {
 public:
  explicit Beside(LogFolder& log) : log_(log) {}

  Result<Bytes> read(const std::string& name, std::size_t limit) override {
    Result<Bytes> bytes = log_.read(name, limit);
    if (bytes || bytes.error().code != ErrorCode::kNotFound) return bytes;
    const auto tile = parse_tile_path(name);
    const bool is_bundle = tile && tile->level == Tile::kEntries && tile->full();
    return is_bundle ? read_bundle(*tile, limit) : bytes;
  }
  Status write(std::span<const File> files) override { return log_.write(files); }
  Status sync_names(const std::string& folder) override { return log_.sync_names(folder); }
  Status rename(const std::string& from, const std::string& to) override {
    return log_.rename(from, to);
  }
  Status remove(const std::string& name) override { return log_.remove(name); }
  Status remove_folder(const std::string& folder) override { return log_.remove_folder(folder); }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    return log_.list(folder);
  }
  std::optional<std::uint64_t> free_bytes() override { return log_.free_bytes(); }

 protected:
  // Of a full bundle that the log's folder does not have.
  virtual Result<Bytes> read_bundle(const Tile& tile, std::size_t limit) = 0;
  LogFolder& log() { return log_; }

 private:
  LogFolder& log_;
};

class ArchivedFolder final : public Beside {
 public:
  ArchivedFolder(std::unique_ptr<LogFolder> log, std::string archive)
      : Beside(*log), owned_(std::move(log)), given_(std::move(archive)) {}

 private:
  Result<Bytes> read_bundle(const Tile& tile, std::size_t limit) override {
    // Read anew each time, because a log may be archived while it is read.
    TRY(const std::optional<ArchiveNote> note, read_archive_note(log()));
    const std::uint64_t first = tile.index * kTileWidth;
    if (!note || first >= note->entries) return log().read(tile.path(), limit);
    const std::string& from = given_.empty() ? note->folder : given_;
    Result<Bytes> archived = read_from(from, tile.path(), limit);
    if (archived || archived.error().code == ErrorCode::kInvalidInput) return archived;
    return Error::of(ErrorCode::kUnavailable, tile.path(), ": entries ", first, " to ",
                     first + kTileWidth - 1, " are archived in ", from,
                     " and cannot be read there (", archived.error().message,
                     "): make that folder readable; `hearth ledger archive FOLDER` names another "
                     "place for good, --archive FOLDER for one audit, verify or ledger");
  }
  Result<Bytes> read_from(const std::string& path, const std::string& name, std::size_t limit) {
    if (archive_ == nullptr || opened_ != path) {
      TRY(archive_, open_log_folder(path, LogAccess::kRead));
      opened_ = path;
    }
    return archive_->read(name, limit);
  }

  std::unique_ptr<LogFolder> owned_;
  const std::string given_;
  std::unique_ptr<LogFolder> archive_;
  std::string opened_;  // the path of archive_
};

// With the archive that is written to.
class BothFolders final : public Beside {
 public:
  BothFolders(LogFolder& log, LogFolder& archive) : Beside(log), archive_(archive) {}

 private:
  Result<Bytes> read_bundle(const Tile& tile, std::size_t limit) override {
    return archive_.read(tile.path(), limit);
  }

  LogFolder& archive_;
};

std::string bundle_name(std::uint64_t index) { return Tile{Tile::kEntries, index}.path(); }

std::vector<std::string> folders_above(const std::string& name) {
  std::vector<std::string> folders{""};
  for (std::size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    folders.push_back(name.substr(0, slash + 1));
  }
  return folders;
}

Status sync_above(LogFolder& folder, const std::string& first, const std::string& last) {
  std::vector<std::string> folders = folders_above(first);
  for (std::string& one : folders_above(last)) folders.push_back(std::move(one));
  std::ranges::sort(folders);
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  for (const std::string& one : folders) TRY_VOID(folder.sync_names(one));
  return ok_status();
}

// Copies those of bundles [begin, end) that the log still has. What the archive has under their
// names must be equal.
Result<Archived> copy(LogFolder& log, LogFolder& archive, std::uint64_t begin, std::uint64_t end) {
  Archived copied;
  std::vector<std::pair<std::string, Bytes>> bundles;
  for (std::uint64_t index = begin; index < end; ++index) {
    const std::string name = bundle_name(index);
    auto bytes = log.read(name, kBundleBytes);
    if (!bytes && bytes.error().code == ErrorCode::kNotFound) continue;  // archived before
    if (!bytes) return bytes.error();
    ++copied.moved;
    copied.bytes += bytes->size();
    const auto there = archive.read(name, kBundleBytes);
    REQUIRE(!there || *there == *bytes, name,
            ": the archive has another bundle under this name; give an empty folder or "
            "this log's own archive");
    if (there) continue;
    if (there.error().code != ErrorCode::kNotFound) return there.error();
    bundles.emplace_back(name, *std::move(bytes));
  }
  if (copied.moved == 0) return copied;
  std::vector<LogFolder::File> files;
  for (const auto& [name, bytes] : bundles) files.push_back({name + std::string(kDraftEnd), bytes});
  // Under its own name a bundle is whole, also after a crash.
  TRY_VOID(archive.write(files));
  for (std::size_t i = 0; i < files.size(); ++i) {
    TRY_VOID(archive.rename(files[i].name, bundles[i].first));
  }
  TRY_VOID(sync_above(archive, bundle_name(begin), bundle_name(end - 1)));
  for (const auto& [name, bytes] : bundles) {
    TRY(const Bytes there, archive.read(name, kBundleBytes));
    if (there == bytes) continue;
    return Error::of(ErrorCode::kIo, name,
                     ": the archive does not give back what was written to it");
  }
  return copied;
}

Status remove(LogFolder& log, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t index = begin; index < end; ++index) {
    const Tile tile{Tile::kEntries, index};
    const Status removed = log.remove(tile.path());
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
    const Status partials = log.remove_folder(tile.partials());
    if (!partials.ok() && partials.error().code != ErrorCode::kNotFound) return partials;
  }
  return sync_above(log, bundle_name(begin), bundle_name(end - 1));
}

}  // namespace

Result<std::optional<ArchiveNote>> read_archive_note(LogFolder& log) {
  const auto bytes = log.read(std::string(kArchiveFile), kNoteBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::optional<ArchiveNote>();
  if (!bytes) return bytes.error();
  TRY(ArchiveNote note, parse_archive_note(as_text(*bytes)));
  return std::optional(std::move(note));
}

std::unique_ptr<LogFolder> with_archive(std::unique_ptr<LogFolder> log, std::string archive) {
  return std::make_unique<ArchivedFolder>(std::move(log), std::move(archive));
}

Result<std::unique_ptr<LogFolder>> open_archived_log(const std::string& path, LogAccess access,
                                                     std::string archive) {
  TRY(auto log, open_log_folder(path, access));
  return with_archive(std::move(log), std::move(archive));
}

Result<Archived> archive_bundles(LogFolder& log, LogFolder& archive, const std::string& path,
                                 std::int64_t age_seconds) {
  INVARIANT(age_seconds >= 0 && path.starts_with('/'), "an age and an absolute path");
  BothFolders both(log, archive);
  std::vector<std::int64_t> latest;  // time of each bundle's last entry
  TRY(const Scan scan,
      scan_log(both, {}, [&latest](std::uint64_t index, ByteSpan bytes, const Hash256&) -> Status {
        TRY(const Entry entry, parse_entry(bytes));
        if (index % kTileWidth == 0) latest.push_back(entry.time);
        latest.back() = entry.time;
        return ok_status();
      }));
  TRY(const std::optional<ArchiveNote> before, read_archive_note(log));
  const std::uint64_t full = scan.checkpoint.size / kTileWidth;
  std::uint64_t end = before ? before->entries / kTileWidth : 0;
  REQUIRE(end <= full, kArchiveFile, ": it names more entries than the log has");
  while (end < full && latest[end] <= latest.back() - age_seconds) ++end;
  Archived all;
  all.entries = end * kTileWidth;
  all.left = scan.checkpoint.size - std::min(scan.checkpoint.size, all.entries);
  const auto each = [end](const auto& some) -> Status {
    for (std::uint64_t at = 0; at < end; at += kBundlesAtOnce) {
      TRY_VOID(some(at, std::min(at + kBundlesAtOnce, end)));
    }
    return ok_status();
  };
  TRY_VOID(each([&](std::uint64_t at, std::uint64_t until) -> Status {
    TRY(const Archived copied, copy(log, archive, at, until));
    all.moved += copied.moved;
    all.bytes += copied.bytes;
    return ok_status();
  }));
  if (end == 0) return all;
  // From here on readers use the archive, so the log's own copies may be removed.
  const std::string note = note_text({all.entries, path});
  TRY(const ArchiveNote parsed, parse_archive_note(note));
  INVARIANT(parsed.entries == all.entries, "what is written of an archive can be read");
  TRY_VOID(replace_file(log, std::string(kArchiveFile), as_bytes(note)));
  if (all.moved > 0) {
    TRY_VOID(each([&](std::uint64_t at, std::uint64_t until) { return remove(log, at, until); }));
  }
  return all;
}

}  // namespace hearth::ledger
