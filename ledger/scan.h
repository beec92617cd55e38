// Scan: reads a log from its folder and its key alone, as an auditor does. A scan hashes every
// entry and compares every file with the signed checkpoint. The first fault is an error that names
// file, byte and entry. Nothing is skipped but what ScanOptions::by_hash names. Memory is bounded
// by a few bundles.
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
// Beside the log, and no part of it: where its archived bundles are (archive.h), and what the
// coordinator's fold came to (coordinator/proof/ledger_snapshot.h).
inline constexpr std::string_view kArchiveFile = "archive";
inline constexpr std::string_view kSnapshotFile = "snapshot";
inline constexpr std::string_view kDraftEnd = ".new";  // of a file that is renamed once it is whole
// The file with a witness's latest cosigned checkpoint; it has that one cosignature only.
std::string witness_file(const PublicKey& witness);

// TreeEdge: the right edge of a tree: for each level, the hashes of its unfinished tile.
class TreeEdge {
 public:
  // Called for each tile that becomes full.
  using FullTile = std::function<Status(const Tile& tile, std::span<const Hash256> hashes)>;

  Status push(const Hash256& leaf, const FullTile& full);
  std::uint64_t size() const { return size_; }
  const std::vector<Hash256>& partial(unsigned level) const { return levels_[level]; }
  Hash256 root() const;

 private:
  friend class BooksState;

  std::array<std::vector<Hash256>, kTileLevels> levels_;
  std::uint64_t size_ = 0;
};

// An entry bundle; its entries point into its bytes, so it is moved and never copied.
struct Bundle {
  Bytes bytes;
  std::vector<BundleEntry> entries;
};

// TileReader: the tiles of one checkpoint's tree, as nodes for proofs. It caches a few tiles and
// trusts the files, so the caller checks a proof before using it. One thread.
class TileReader {
 public:
  TileReader(LogFolder& folder, std::uint64_t size) : folder_(folder), size_(size) {}

  // kInvalidInput when the file is missing or has the wrong length.
  Result<std::vector<Hash256>> hashes(const Tile& tile);
  Result<Bundle> bundle(const Tile& tile);      // exactly tile.width entries
  Result<Bundle> bundle(std::uint64_t index) {  // all of its entries
    return bundle(Tile{Tile::kEntries, index, tile_width(Tile::kEntries, index, size_)});
  }
  Result<Hash256> node(unsigned level, std::uint64_t index);
  NodeReader nodes();

 private:
  struct Contents {
    Bytes bytes;
    std::uint32_t width = 0;  // of the tile in the file
  };
  Result<Contents> read(const Tile& tile, std::size_t limit);

  LogFolder& folder_;
  std::uint64_t size_;
  std::map<std::string, std::vector<Hash256>> kept_;
};

// kNotFound when the folder holds no log; kInvalidInput when its checkpoint is missing or wrong.
Result<Checkpoint> read_checkpoint(LogFolder& folder);

// Receives the entries in order, before the root has been compared: the caller must discard its
// results when the scan fails. An error ends the scan, which returns it with the entry's place.
// Called on the thread of scan_log(), while another thread reads ahead in the folder. `leaf`: the
// entry's leaf_hash(), which the scan has computed.
using EntryVisitor =
    std::function<Status(std::uint64_t index, ByteSpan entry, const Hash256& leaf)>;

// Witnesses of one log; further files are not read.
inline constexpr std::size_t kWitnesses = 1'024;

struct Scan {
  Checkpoint checkpoint;
  std::vector<Checkpoint> cosigned;  // by witnesses, each consistent with this log; by key
  TreeEdge edge;
  Bytes bundle;                       // the entries after the last full bundle
  std::vector<std::string> leftover;  // files of an unfinished append, beyond the checkpoint
  std::vector<std::string> strange;   // files that do not belong to a log
  std::vector<std::string> damaged;   // files of witnesses that were passed over, and why
};

struct ScanOptions {
  std::optional<PublicKey> key;       // the expected key; absent: the one in the checkpoint
  std::optional<Checkpoint> earlier;  // the log must extend this one
  bool passes_over = false;           // damaged files of witnesses; else one ends the scan
  // The bundles of entries before this one, in whole bundles, are not read: the hashes in their
  // tiles stand for them, which the signed root proves, and no visitor sees them.
  std::uint64_t by_hash = 0;
};
Result<Scan> scan_log(LogFolder& folder, const ScanOptions& options, const EntryVisitor& visit);

}  // namespace hearth::ledger
