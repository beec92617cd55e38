// Reading a log as anybody may: from nothing but its folder and its key. A whole scan hashes every
// entry and compares every file with what the checkpoint signs; the first fault is an error that
// names file, byte and entry. Nothing is ever skipped. Memory is bounded by a few bundles.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ledger/folder.h"
#include "ledger/merkle.h"
#include "ledger/note.h"
#include "ledger/tiles.h"

namespace hearth::ledger {

inline constexpr std::string_view kCheckpointFile = "checkpoint";
inline constexpr std::string_view kCheckpointDraft = "checkpoint.new";
inline constexpr std::string_view kWitnessFolder = "witnesses/";
// Of a witness: the latest checkpoint that it cosigned, with that cosignature alone.
std::string witness_file(const PublicKey& witness);

// The right edge of a tree: of each level the hashes that fill no tile yet.
class TreeEdge {
 public:
  // Called for every tile that becomes full.
  using FullTile = std::function<Status(const Tile& tile, std::span<const Hash256> hashes)>;

  Status push(const Hash256& leaf, const FullTile& full);
  std::uint64_t size() const { return size_; }
  const std::vector<Hash256>& partial(unsigned level) const { return levels_[level]; }
  Hash256 root() const;

 private:
  std::array<std::vector<Hash256>, kTileLevels> levels_;
  std::uint64_t size_ = 0;
};

// The tiles of one checkpoint's tree, as nodes for proofs. Keeps the latest few in memory; what it
// gives is only as right as the files, so check a proof before it goes out. One thread.
class TileReader {
 public:
  TileReader(LogFolder& folder, std::uint64_t size) : folder_(folder), size_(size) {}

  // kInvalidInput, with what is wrong, when a file is missing or has not the length it must have.
  Result<std::vector<Hash256>> hashes(const Tile& tile);
  Result<Bytes> bundle(const Tile& tile);  // exactly tile.width entries, as parse_bundle() asks
  Result<Hash256> node(unsigned level, std::uint64_t index);
  NodeReader nodes();

 private:
  struct Contents {
    Bytes bytes;
    std::uint32_t width = 0;  // of the tile that the file is
  };
  Result<Contents> read(const Tile& tile, std::size_t limit);

  LogFolder& folder_;
  std::uint64_t size_;
  std::map<std::string, std::vector<Hash256>> kept_;
};

// kNotFound when the folder holds no log; kInvalidInput when its checkpoint is missing or wrong.
Result<Checkpoint> read_checkpoint(LogFolder& folder);

// Entries in order, each before the checkpoint's root has been compared: what is made of them
// counts only when the scan succeeds. An error ends the scan and becomes its own, with the entry's
// place. Called on the thread of scan_log(), while another one reads on in the folder.
using EntryVisitor = std::function<Status(std::uint64_t index, ByteSpan entry)>;
// The same for who needs the entry's leaf as well, which the scan has hashed.
using LeafVisitor = std::function<Status(std::uint64_t index, ByteSpan entry, const Hash256& leaf)>;

// A log may have as many witnesses, and no more are read.
inline constexpr std::size_t kWitnesses = 1'024;

struct Scan {
  Checkpoint checkpoint;
  std::vector<Checkpoint> cosigned;  // by witnesses, each of this history; in the order of keys
  TreeEdge edge;
  Bytes bundle;                       // the entries behind the last full bundle
  std::vector<std::string> leftover;  // of an append that never ended: beyond the checkpoint
  std::vector<std::string> strange;   // no files of a log at all
};

struct ScanOptions {
  std::optional<PublicKey> key;       // the log's; else the one that its checkpoint names
  std::optional<Checkpoint> earlier;  // of the same log: must be a beginning of it
};
Result<Scan> scan_log(LogFolder& folder, const ScanOptions& options, const EntryVisitor& visit);
Result<Scan> scan_leaves(LogFolder& folder, const ScanOptions& options, const LeafVisitor& visit);

}  // namespace hearth::ledger
