// Log: an append-only sequence of entries (1 to 65,535 bytes each, without meaning here) under a
// Merkle tree and a signed checkpoint, laid out as C2SP tlog-tiles in one folder.
//
// append() is atomic: after a crash at any point the disk has the log before it or after it, and it
// returns success only when its entries are on the disk under a signed checkpoint. A failed write
// or sync ends the log for this process, because the disk's contents are unknown then; a new
// process opens what is there. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "ledger/scan.h"
#include "ledger/witness.h"

namespace hearth::ledger {

class Log {
 public:
  // Creates an empty log. kInvalidInput when the folder holds a log or parts of one: a second log
  // under the same key would contradict the first one's checkpoints.
  static Result<std::unique_ptr<Log>> create(std::unique_ptr<LogFolder> folder,
                                             const SecretKey& key);
  // Opens the log of this key and scans all of it: the visitor sees every entry (scan.h). Removes
  // the leftovers of an append that did not finish. A damaged file of a witness is passed over: it
  // holds a copy of what that witness knows and gives again.
  // `by_hash`: as ScanOptions has it.
  static Result<std::unique_ptr<Log>> open(std::unique_ptr<LogFolder> folder, const SecretKey& key,
                                           const EntryVisitor& visit = {},
                                           std::uint64_t by_hash = 0);

  std::uint64_t size() const { return checkpoint_.size; }
  std::optional<std::uint64_t> free_bytes() { return folder_->free_bytes(); }  // of its disk
  const Checkpoint& checkpoint() const { return checkpoint_; }  // the newest, on the disk

  // Appends at most limits::kLogBatch entries and returns the index of the first.
  Result<std::uint64_t> append(std::span<const ByteSpan> entries);
  Result<std::uint64_t> append(ByteSpan entry) { return append({&entry, 1}); }

  // Adds a witness's line to the newest checkpoint. kInvalidInput: it belongs to an older one.
  Status add_cosignature(const NoteSignature& line);
  // Stores results of parse_cosigned(), each a checkpoint of this log, in place of what the same
  // witness had cosigned before. Lines for the newest checkpoint are also added to it.
  Status keep_cosigned(std::span<const Checkpoint> cosigned);
  const std::map<PublicKey, Checkpoint>& cosigned() const { return cosigned_; }
  const std::vector<std::string>& damaged() const { return damaged_; }  // what was passed over

  // Puts the file kSnapshotFile beside the log, in place of an older one. It is no part of the log,
  // so that a failure does not end it.
  Status keep_snapshot(ByteSpan bytes);

  // The newest checkpoint with the proof that it extends the first `old_size` entries, which is
  // checked. kInvalidInput names the file when the disk's contents have changed.
  Result<Offer> offer(std::uint64_t old_size);

 private:
  Log(std::unique_ptr<LogFolder> folder, const SecretKey& key)
      : folder_(std::move(folder)), key_(key) {}

  struct Draft;  // the files that an append writes
  Status build(std::span<const ByteSpan> entries, Draft& draft) const;
  Status write(const Draft& draft);
  Status sync_folders_of(const Draft& draft);
  Status publish(const Checkpoint& checkpoint);
  Status remove_leftover(const std::vector<std::string>& names);
  void remove_partials(const Draft& draft);
  Error ended(const Error& why);

  std::unique_ptr<LogFolder> folder_;
  SecretKey key_;
  Checkpoint checkpoint_;
  TreeEdge edge_;
  Bytes bundle_;
  std::map<PublicKey, Checkpoint> cosigned_;  // by witness, on the disk
  std::vector<std::string> damaged_;
  std::set<std::string> durable_;  // folders whose names are on the disk
  std::optional<Error> ended_;
};

}  // namespace hearth::ledger
