// The ledger's log: an append-only sequence of entries (1 to 65,535 bytes each, of any meaning)
// under a Merkle tree and a signed checkpoint, as C2SP tlog-tiles lays it out in one folder.
//
// append() returns when its entries are on the disk under a signed checkpoint, or never happened: a
// crash at any point leaves the log of the checkpoint before or of this one, and nothing between. A
// failed write or sync ends the log for this process, since nobody knows then what the disk holds;
// a new process opens what is there. One thread.
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
  // A new log of no entries. kInvalidInput when the folder holds one, or what is left of one: a log
  // that began again under the same key would contradict its own checkpoints.
  static Result<std::unique_ptr<Log>> create(std::unique_ptr<LogFolder> folder,
                                             const SecretKey& key);
  // The log of this key, scanned whole: the visitor sees every entry (scan.h). What an append left
  // that never ended is removed.
  static Result<std::unique_ptr<Log>> open(std::unique_ptr<LogFolder> folder, const SecretKey& key,
                                           const LeafVisitor& visit = {});

  std::uint64_t size() const { return checkpoint_.size; }
  const Checkpoint& checkpoint() const { return checkpoint_; }  // the newest, on the disk

  // At most limits::kLogBatch entries. The index of the first.
  Result<std::uint64_t> append(std::span<const ByteSpan> entries);
  Result<std::uint64_t> append(ByteSpan entry) { return append({&entry, 1}); }

  // Adds a witness's line to the newest checkpoint. kInvalidInput when it is of an older one.
  Status add_cosignature(const NoteSignature& line);
  // Keeps what parse_cosigned() gave, each a checkpoint of this log, instead of what the same
  // witness had cosigned before; adds the lines of those that are of the newest checkpoint to it.
  Status keep_cosigned(std::span<const Checkpoint> cosigned);
  const std::map<PublicKey, Checkpoint>& cosigned() const { return cosigned_; }

  // Compared with the checkpoint's root before they are given: kInvalidInput, with the file, when
  // the disk no longer holds what it held.
  Result<Bytes> read(std::uint64_t index);
  Result<Proof> prove_inclusion(std::uint64_t index);
  Result<Proof> prove_consistency(std::uint64_t old_size, const Hash256& old_root);
  // The newest checkpoint, and that it extends this log's own first `old_size` entries.
  Result<Offer> offer(std::uint64_t old_size);

 private:
  Log(std::unique_ptr<LogFolder> folder, const SecretKey& key)
      : folder_(std::move(folder)), key_(key) {}

  struct Draft;  // what an append will write
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
  std::set<std::string> durable_;             // folders whose own names are on the disk
  std::optional<Error> ended_;
};

}  // namespace hearth::ledger
