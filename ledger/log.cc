#include "ledger/log.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace hearth::ledger {
namespace {

constexpr std::size_t kFoldersKept = 1024;

Bytes tile_bytes(std::span<const Hash256> hashes) {
  Bytes bytes(hashes.size_bytes());
  std::memcpy(bytes.data(), hashes.data(), bytes.size());
  return bytes;
}

// The parent folder: "tile/0/" for "tile/0/000.p/", empty for the log's own folder.
std::string parent(const std::string& folder) {
  const std::size_t slash = folder.rfind('/', folder.size() - 2);
  return slash == std::string::npos ? std::string() : folder.substr(0, slash + 1);
}

std::string folder_of(const std::string& file) { return file.substr(0, file.rfind('/') + 1); }

}  // namespace

struct Log::Draft {
  TreeEdge edge;
  Bytes bundle;
  std::vector<std::pair<Tile, Bytes>> files;
};

Result<std::unique_ptr<Log>> Log::create(std::unique_ptr<LogFolder> folder, const SecretKey& key) {
  const auto found = read_checkpoint(*folder);
  REQUIRE(!found && found.error().code == ErrorCode::kNotFound,
          "the folder holds a log already; a new one begins in an empty folder");
  std::unique_ptr<Log> log(new Log(std::move(folder), key));
  TRY_VOID(log->publish(sign_checkpoint(0, empty_root(), key)));
  return log;
}

Result<std::unique_ptr<Log>> Log::open(std::unique_ptr<LogFolder> folder, const SecretKey& key,
                                       const EntryVisitor& visit, std::uint64_t by_hash) {
  TRY(Scan scan, scan_log(*folder, {key.public_key(), {}, true, by_hash}, visit));
  std::unique_ptr<Log> log(new Log(std::move(folder), key));
  log->checkpoint_ = std::move(scan.checkpoint);
  log->edge_ = std::move(scan.edge);
  log->bundle_ = std::move(scan.bundle);
  log->damaged_ = std::move(scan.damaged);
  for (Checkpoint& one : scan.cosigned) {
    const PublicKey witness = one.cosignatures.front().witness;
    log->cosigned_.emplace(witness, std::move(one));
  }
  TRY_VOID(log->remove_leftover(scan.leftover));
  // The process that renamed the checkpoint may have died before that name was durable.
  TRY_VOID(log->folder_->sync_names(""));
  return log;
}

Status Log::remove_leftover(const std::vector<std::string>& names) {
  std::set<std::string> folders;
  for (const std::string& name : names) {
    TRY_VOID(folder_->remove(name));
    folders.insert(folder_of(name));
  }
  // Otherwise a removed file could reappear beside the next append.
  for (const std::string& folder : folders) TRY_VOID(folder_->sync_names(folder));
  return ok_status();
}

Error Log::ended(const Error& why) {
  ended_ = Error::of(ErrorCode::kIo, why.message,
                     ": the log takes no more entries in this process; check the disk "
                     "and its free space, then start the process again");
  return *ended_;
}

Status Log::build(std::span<const ByteSpan> entries, Draft& draft) const {
  draft.edge = edge_;
  draft.bundle = bundle_;
  const auto full = [&draft](const Tile& tile, std::span<const Hash256> hashes) {
    draft.files.emplace_back(tile, tile_bytes(hashes));
    return ok_status();
  };
  for (const ByteSpan entry : entries) {
    append_to_bundle(draft.bundle, entry);
    TRY_VOID(draft.edge.push(leaf_hash(entry), full));
    if (draft.edge.size() % kTileWidth != 0) continue;
    draft.files.emplace_back(Tile{Tile::kEntries, draft.edge.size() / kTileWidth - 1},
                             std::move(draft.bundle));
    draft.bundle.clear();
  }
  const std::uint64_t size = draft.edge.size();
  const auto place = [size](unsigned level) {
    const std::uint64_t index = level_size(level, size) / kTileWidth;
    return Tile{level, index, tile_width(level, index, size)};
  };
  if (!draft.bundle.empty()) draft.files.emplace_back(place(Tile::kEntries), draft.bundle);
  for (unsigned level = 0; level < kTileLevels; ++level) {
    const bool known = level_size(level, size) == level_size(level, edge_.size());
    if (known || draft.edge.partial(level).empty()) continue;
    draft.files.emplace_back(place(level), tile_bytes(draft.edge.partial(level)));
  }
  return ok_status();
}

Status Log::sync_folders_of(const Draft& draft) {
  if (durable_.size() > kFoldersKept) durable_.clear();
  std::set<std::string> folders;
  for (const auto& [tile, bytes] : draft.files) {
    std::string folder = folder_of(tile.path());
    folders.insert(folder);
    while (!folder.empty() && !durable_.contains(folder)) {
      durable_.insert(folder);
      folder = parent(folder);
      folders.insert(folder);
    }
  }
  for (const std::string& folder : folders) TRY_VOID(folder_->sync_names(folder));
  return ok_status();
}

Status Log::write(const Draft& draft) {
  std::vector<LogFolder::File> files;
  for (const auto& [tile, bytes] : draft.files) files.push_back({tile.path(), bytes});
  TRY_VOID(folder_->write(files));
  TRY_VOID(sync_folders_of(draft));
  return publish(sign_checkpoint(draft.edge.size(), draft.edge.root(), key_));
}

Status Log::publish(const Checkpoint& checkpoint) {
  const std::string text = checkpoint.text();
  const LogFolder::File file{std::string(kCheckpointDraft), as_bytes(text)};
  TRY_VOID(folder_->write({&file, 1}));
  TRY_VOID(folder_->rename(file.name, std::string(kCheckpointFile)));
  TRY_VOID(folder_->sync_names(""));
  checkpoint_ = checkpoint;
  return ok_status();
}

// Removes the partial tiles of tiles that are full now. Failure is harmless.
void Log::remove_partials(const Draft& draft) {
  for (const auto& [tile, bytes] : draft.files) {
    if (!tile.full()) continue;
    (void)folder_->remove_folder(tile.partials());
    durable_.erase(tile.partials());
  }
}

Result<std::uint64_t> Log::append(std::span<const ByteSpan> entries) {
  if (ended_) return *ended_;
  REQUIRE(!entries.empty() && entries.size() <= limits::kLogBatch, "an append of ", entries.size(),
          " entries; it has 1 to ", limits::kLogBatch);
  REQUIRE(entries.size() <= limits::kLogEntries - size(), "the log is full");
  for (const ByteSpan entry : entries) {
    REQUIRE(!entry.empty() && entry.size() <= limits::kLogEntryBytes, "an entry of ", entry.size(),
            " bytes; it has 1 to ", limits::kLogEntryBytes);
  }
  const std::uint64_t first = size();
  Draft draft;
  TRY_VOID(build(entries, draft));
  if (const Status written = write(draft); !written) return ended(written.error());
  edge_ = std::move(draft.edge);
  bundle_ = std::move(draft.bundle);
  INVARIANT(edge_.size() == first + entries.size(), "an append adds each entry to the tree");
  remove_partials(draft);
  return first;
}

Status Log::add_cosignature(const NoteSignature& line) {
  if (ended_) return *ended_;
  Checkpoint checkpoint = checkpoint_;
  TRY_VOID(ledger::add_cosignature(checkpoint, line));
  if (const Status written = publish(checkpoint); !written) return ended(written.error());
  return ok_status();
}

Status Log::keep_cosigned(std::span<const Checkpoint> cosigned) {
  if (ended_) return *ended_;
  const std::string above(kWitnessFolder);
  std::vector<std::string> texts;
  std::vector<LogFolder::File> files;
  Checkpoint newest = checkpoint_;
  texts.reserve(cosigned.size());  // the files point into these strings
  for (const Checkpoint& one : cosigned) {
    const PublicKey& witness = one.cosignatures.front().witness;
    REQUIRE(one.log == key_.public_key() && one.size <= size(),
            "a cosigned checkpoint is not of this log");
    REQUIRE(cosigned_.contains(witness) || cosigned_.size() + files.size() < kWitnesses,
            "the log has ", kWitnesses, " witnesses already");
    const ByteSpan text = as_bytes(texts.emplace_back(one.text()));
    files.push_back({witness_file(witness) + ".new", text});
    const bool is_room = newest.note.signatures.size() < limits::kNoteSignatures;
    if (one.note.text != newest.note.text || !is_room) continue;
    // A witness that has a line there already keeps that line.
    (void)ledger::add_cosignature(newest, one.note.signatures.back());
  }
  const auto store = [&]() -> Status {
    TRY_VOID(folder_->write(files));
    if (durable_.insert(above).second) TRY_VOID(folder_->sync_names(""));
    for (const Checkpoint& one : cosigned) {
      const std::string name = witness_file(one.cosignatures.front().witness);
      TRY_VOID(folder_->rename(name + ".new", name));
    }
    TRY_VOID(folder_->sync_names(above));
    const bool is_more = newest.cosignatures.size() > checkpoint_.cosignatures.size();
    return is_more ? publish(newest) : ok_status();
  };
  if (const Status stored = store(); !stored) return ended(stored.error());
  for (const Checkpoint& one : cosigned) {
    cosigned_.insert_or_assign(one.cosignatures.front().witness, one);
  }
  return ok_status();
}

Status Log::keep_snapshot(ByteSpan bytes) {
  if (ended_) return *ended_;
  return replace_file(*folder_, std::string(kSnapshotFile), bytes);
}

Result<Offer> Log::offer(std::uint64_t old_size) {
  REQUIRE(old_size <= size(), "a log of ", size(), " entries has no first ", old_size);
  TileReader tiles(*folder_, size());
  Offer offer{checkpoint_, old_size, {}, {}};
  TRY(offer.old_root, tree_root(old_size, tiles.nodes()));
  TRY(offer.proof, consistency_proof(old_size, size(), tiles.nodes()));
  TRY_VOID(check_consistency(old_size, offer.old_root, size(), checkpoint_.root, offer.proof));
  return offer;
}

}  // namespace hearth::ledger
