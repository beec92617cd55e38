#include "ledger/scan.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "base/hex.h"
#include "ledger/witness.h"

namespace hearth::ledger {
namespace {

constexpr std::size_t kTilesKept = 64;
constexpr std::size_t kPathBytes = 80;  // longer than every name in a log
// Bounds of the bundles that are hashed ahead of the visitor.
constexpr std::size_t kBundlesAhead = 16;
constexpr std::size_t kBytesAhead = std::size_t{4} << 20;

std::string decimal(std::uint64_t value) { return std::to_string(value); }

Error at_file(const std::string& file, const std::string& what) {
  return Error::invalid(file, ": ", what);
}

struct Hashed {
  Tile tile;
  Bundle bundle;
  std::vector<Hash256> leaves;  // of its entries: all, or those before its first fault
};
struct Ahead {
  std::vector<Hashed> bundles;
  Status fault = ok_status();  // the first fault after these bundles
};

std::string place(const Tile& bundle, std::uint32_t at, const BundleEntry& entry) {
  return bundle.path() + ": entry " + decimal(bundle.index * kTileWidth + at) + " at byte " +
         decimal(entry.offset);
}

// A checkpoint that the log must extend, and the words of its error message.
struct Beginning {
  const Checkpoint* checkpoint;
  std::string cut;     // "but an earlier one of ", before its entries
  std::string forked;  // "an earlier checkpoint signs"
  std::optional<Hash256> root;
};

// The witness whose file this is; nothing for any other name.
std::optional<PublicKey> witness_of(std::string_view name) {
  if (!name.starts_with(kWitnessFolder)) return std::nullopt;
  const auto bytes = from_hex(name.substr(kWitnessFolder.size()));
  if (!bytes || bytes->size() != PublicKey::kBytes) return std::nullopt;
  const auto key = PublicKey::parse(*bytes);
  return key && witness_file(*key) == name ? std::optional(*key) : std::nullopt;
}

Result<Checkpoint> read_cosigned(LogFolder& folder, const std::string& name,
                                 const PublicKey& witness) {
  TRY(const Bytes bytes, folder.read(name, limits::kNoteBytes));
  auto checkpoint = parse_checkpoint(bytes, ForeignLines::kRefuse);
  if (checkpoint) checkpoint = parse_cosigned(bytes, checkpoint->log, witness);
  if (!checkpoint) return at_file(name, checkpoint.error().message);
  return checkpoint;
}

// Must be called before the log's checkpoint is read, so that the checkpoint covers each of these.
Result<std::vector<Checkpoint>> read_all_cosigned(LogFolder& folder, const ScanOptions& options,
                                                  std::vector<std::string>& damaged) {
  std::vector<Checkpoint> cosigned;
  const auto names = folder.list(std::string(kWitnessFolder));
  if (!names && names.error().code == ErrorCode::kNotFound) return cosigned;
  if (!names) return names.error();
  for (const std::string& name : *names) {
    const std::string whole = std::string(kWitnessFolder) + name;
    const auto witness = witness_of(whole);
    if (!witness) continue;  // reported as a strange file by the walk
    REQUIRE(cosigned.size() < kWitnesses, kWitnessFolder, ": more than ", decimal(kWitnesses),
            " witnesses");
    auto checkpoint = read_cosigned(folder, whole, *witness);
    if (!checkpoint && !options.passes_over) return checkpoint.error();
    if (checkpoint) {
      cosigned.push_back(*std::move(checkpoint));
    } else {
      damaged.push_back(checkpoint.error().message);
    }
  }
  return cosigned;
}

// One pass over a log.
class Scanner {
 public:
  Scanner(LogFolder& folder, const ScanOptions& options, const EntryVisitor& visit,
          Checkpoint checkpoint, std::vector<Checkpoint> cosigned)
      : folder_(folder), options_(options), visit_(visit), tiles_(folder, checkpoint.size) {
    scan_.checkpoint = std::move(checkpoint);
    scan_.cosigned = std::move(cosigned);
  }

  Result<Scan> run();

 private:
  Status expect_beginnings();
  Ahead hash_some();
  Status hash_bundle(Hashed& next);
  Status hash_entry(const Tile& bundle, std::uint32_t at, const BundleEntry& entry,
                    const Hash256& listed);
  Status add_leaf(const Hash256& hash);
  bool is_by_hash(std::uint64_t bundle) const {
    return (bundle + 1) * kTileWidth <= options_.by_hash;
  }
  Status visit(const Ahead& some) const;
  std::uint64_t bundles() const { return bundle_count(scan_.checkpoint.size); }
  Status check_tile(const Tile& tile, std::span<const Hash256> right);
  Status check_edge();
  Status check_beginnings() const;
  Status walk(const std::string& folder);
  Status check_file(const std::string& name);
  Status check_older_partial(const Tile& tile);

  LogFolder& folder_;
  const ScanOptions& options_;
  const EntryVisitor& visit_;
  TileReader tiles_;
  std::uint64_t next_ = 0;  // bundle to be hashed
  Scan scan_;
  std::vector<Beginning> beginnings_;  // by size
  std::size_t met_ = 0;                // beginnings whose size was reached
};

Status Scanner::expect_beginnings() {
  if (options_.earlier) {
    REQUIRE(options_.earlier->log == scan_.checkpoint.log,
            "the earlier checkpoint is of another log");
    beginnings_.push_back({&*options_.earlier, "but an earlier one of ",
                           "an earlier checkpoint signs", std::nullopt});
  }
  for (const Checkpoint& one : scan_.cosigned) {
    const PublicKey& witness = one.cosignatures.front().witness;
    REQUIRE(one.log == scan_.checkpoint.log, witness_file(witness), ": it is of another log");
    beginnings_.push_back({&one, "but one that " + witness_file(witness) + " has, of ",
                           witness_file(witness) + " has as signed and cosigned", std::nullopt});
  }
  for (const Beginning& one : beginnings_) {
    REQUIRE(one.checkpoint->size <= scan_.checkpoint.size, "checkpoint: it has ",
            decimal(scan_.checkpoint.size), " entries, ", one.cut, decimal(one.checkpoint->size),
            " is signed: entries were taken away");
  }
  std::ranges::stable_sort(beginnings_, {},
                           [](const Beginning& one) { return one.checkpoint->size; });
  for (; met_ < beginnings_.size() && beginnings_[met_].checkpoint->size == 0; ++met_) {
    beginnings_[met_].root = empty_root();
  }
  return ok_status();
}

Status Scanner::hash_entry(const Tile& bundle, std::uint32_t at, const BundleEntry& entry,
                           const Hash256& listed) {
  const Hash256 hash = leaf_hash(entry.bytes);
  const Tile leaves{0, bundle.index, bundle.width};
  REQUIRE(hash == listed, place(bundle, at, entry), " has the hash ", hash.hex(), ", but byte ",
          decimal(at * sizeof(Hash256)), " of ", leaves.path(), " says ", listed.hex());
  return add_leaf(hash);
}

Status Scanner::add_leaf(const Hash256& hash) {
  TRY_VOID(scan_.edge.push(hash, [this](const Tile& tile, std::span<const Hash256> hashes) {
    return tile.level == 0 ? ok_status() : check_tile(tile, hashes);
  }));
  for (; met_ < beginnings_.size() && beginnings_[met_].checkpoint->size == scan_.edge.size();
       ++met_) {
    beginnings_[met_].root = scan_.edge.root();
  }
  return ok_status();
}

Status Scanner::hash_bundle(Hashed& next) {
  if (is_by_hash(next.tile.index)) {
    TRY(const std::vector<Hash256> listed, tiles_.hashes({0, next.tile.index, next.tile.width}));
    for (const Hash256& hash : listed) TRY_VOID(add_leaf(hash));
    return ok_status();
  }
  TRY(next.bundle, tiles_.bundle(next.tile));
  TRY(const std::vector<Hash256> listed, tiles_.hashes({0, next.tile.index, next.tile.width}));
  for (std::uint32_t i = 0; i < next.tile.width; ++i) {
    TRY_VOID(hash_entry(next.tile, i, next.bundle.entries[i], listed[i]));
    next.leaves.push_back(listed[i]);
  }
  if (!next.tile.full()) scan_.bundle = next.bundle.bytes;
  return ok_status();
}

Ahead Scanner::hash_some() {
  Ahead some;
  std::size_t bytes = 0;
  while (next_ < bundles() && some.bundles.size() < kBundlesAhead && bytes < kBytesAhead) {
    Hashed& next = some.bundles.emplace_back();
    next.tile = {Tile::kEntries, next_, tile_width(Tile::kEntries, next_, scan_.checkpoint.size)};
    ++next_;
    some.fault = hash_bundle(next);
    if (!some.fault.ok()) break;
    bytes += next.bundle.bytes.size();
  }
  return some;
}

Status Scanner::visit(const Ahead& some) const {
  for (const Hashed& one : some.bundles) {
    for (std::uint32_t i = 0; visit_ && i < one.leaves.size(); ++i) {
      const BundleEntry& entry = one.bundle.entries[i];
      const Status visited = visit_(one.tile.index * kTileWidth + i, entry.bytes, one.leaves[i]);
      if (visited.ok()) continue;
      return Error{visited.error().code,
                   place(one.tile, i, entry) + ": " + visited.error().message};
    }
  }
  return some.fault;
}

Status Scanner::check_tile(const Tile& tile, std::span<const Hash256> right) {
  TRY(const std::vector<Hash256> listed, tiles_.hashes(tile));
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (listed[i] == right[i]) continue;
    const std::uint64_t first = (tile.index * kTileWidth + i) << (8 * tile.level);
    const std::uint64_t last = first + (std::uint64_t{1} << (8 * tile.level)) - 1;
    return at_file(tile.path(), "the hash at byte " + decimal(i * sizeof(Hash256)) +
                                    ", of entries " + decimal(first) + " to " + decimal(last) +
                                    ", is not the one that these entries have");
  }
  return ok_status();
}

Status Scanner::check_edge() {
  for (unsigned level = 1; level < kTileLevels; ++level) {
    const std::vector<Hash256>& partial = scan_.edge.partial(level);
    if (partial.empty()) continue;
    const Tile tile{level, level_size(level, scan_.checkpoint.size) / kTileWidth,
                    static_cast<std::uint32_t>(partial.size())};
    TRY_VOID(check_tile(tile, partial));
  }
  REQUIRE(scan_.edge.root() == scan_.checkpoint.root, "checkpoint: it signs the root ",
          scan_.checkpoint.root.hex(), ", but its ", decimal(scan_.checkpoint.size),
          " entries have ", scan_.edge.root().hex(), ": entries and tiles were rewritten together");
  return ok_status();
}

Status Scanner::check_beginnings() const {
  for (const Beginning& one : beginnings_) {
    REQUIRE(one.root == one.checkpoint->root, "checkpoint: the first ",
            decimal(one.checkpoint->size), " entries are not those that ", one.forked,
            ": two signed histories");
  }
  return ok_status();
}

Status Scanner::walk(const std::string& folder) {
  auto names = folder_.list(folder);
  if (!names && names.error().code == ErrorCode::kNotFound) return ok_status();
  if (!names) return names.error();
  for (const std::string& name : *names) {
    const std::string whole = folder + name;
    if (whole.size() > kPathBytes) {
      scan_.strange.push_back(whole);
    } else if (name.ends_with('/')) {
      TRY_VOID(walk(whole));
    } else {
      TRY_VOID(check_file(whole));
    }
  }
  return ok_status();
}

Status Scanner::check_file(const std::string& name) {
  if (name == kCheckpointFile) return ok_status();
  if (witness_of(name)) return ok_status();
  const std::size_t before = name.size() - std::min(name.size(), kDraftEnd.size());
  const std::string whole = name.substr(0, before);  // of a draft
  const bool is_beside = whole == kArchiveFile || whole == kSnapshotFile;
  const bool is_draft = name.ends_with(kDraftEnd) && (is_beside || witness_of(whole));
  if (name == kArchiveFile || name == kSnapshotFile) return ok_status();
  if (name == kCheckpointDraft || is_draft) {
    scan_.leftover.push_back(name);
    return ok_status();
  }
  const auto tile = parse_tile_path(name);
  if (!tile) {
    scan_.strange.push_back(name);
    return ok_status();
  }
  const std::uint32_t width = tile_width(tile->level, tile->index, scan_.checkpoint.size);
  if (tile->width > width) {
    scan_.leftover.push_back(name);
    return ok_status();
  }
  return tile->width == width ? ok_status() : check_older_partial(*tile);
}

// A partial tile of an earlier checkpoint must be the beginning of the present tile.
Status Scanner::check_older_partial(const Tile& tile) {
  const Tile now{tile.level, tile.index, tile_width(tile.level, tile.index, scan_.checkpoint.size)};
  if (tile.level == Tile::kEntries && is_by_hash(tile.index)) {
    scan_.strange.push_back(tile.path());
    return ok_status();
  }
  auto older = folder_.read(tile.path(), kBundleBytes);
  if (!older && older.error().code == ErrorCode::kNotFound) return ok_status();  // just removed
  if (!older) return older.error();
  Bytes newer;
  if (tile.level == Tile::kEntries) {
    TRY(Bundle bundle, tiles_.bundle(now));
    newer = std::move(bundle.bytes);
    if (tile.width < now.width) newer.resize(bundle.entries[tile.width].offset);
  } else {
    TRY(std::vector<Hash256> hashes, tiles_.hashes(now));
    newer.resize(tile.width * sizeof(Hash256));
    std::memcpy(newer.data(), hashes.data(), newer.size());
  }
  if (*older == newer) return ok_status();
  const auto mine = std::mismatch(older->begin(), older->end(), newer.begin(), newer.end()).first;
  return at_file(tile.path(), "byte " + decimal(mine - older->begin()) + " is not as in " +
                                  now.path() + ", which took its place");
}

Result<Scan> Scanner::run() {
  REQUIRE(!options_.key || *options_.key == scan_.checkpoint.log,
          "checkpoint: it is of another log than asked for: of ", scan_.checkpoint.log.hex(),
          ", not of ", options_.key->hex());
  TRY_VOID(expect_beginnings());
  // A second thread hashes ahead. Only that thread reads the folder meanwhile.
  Ahead some = hash_some();
  while (some.fault.ok() && next_ < bundles()) {
    std::future<Ahead> next = std::async(std::launch::async, [this] { return hash_some(); });
    TRY_VOID(visit(some));
    some = next.get();
  }
  TRY_VOID(visit(some));
  TRY_VOID(check_edge());
  TRY_VOID(check_beginnings());
  TRY_VOID(walk(""));
  return std::move(scan_);
}

}  // namespace

Status TreeEdge::push(const Hash256& leaf, const FullTile& full) {
  Hash256 hash = leaf;
  ++size_;
  for (unsigned level = 0; level < kTileLevels; ++level) {
    std::vector<Hash256>& hashes = levels_[level];
    hashes.push_back(hash);
    if (hashes.size() < kTileWidth) break;
    TRY_VOID(full({level, level_size(level, size_) / kTileWidth - 1}, hashes));
    hash = subtree_root(hashes);
    hashes.clear();
  }
  return ok_status();
}

Hash256 TreeEdge::root() const {
  // Complete subtrees from the right, small ones first, each the right child of the next.
  std::optional<Hash256> root;
  for (const std::vector<Hash256>& hashes : levels_) {
    if (hashes.empty()) continue;
    std::vector<Hash256> all = hashes;
    if (!root) {
      root = subtree_root(all);
      continue;
    }
    // The incomplete subtree is the right sibling of these, although it is smaller.
    all.push_back(*root);
    root = subtree_root(all);
  }
  return root.value_or(empty_root());
}

Result<TileReader::Contents> TileReader::read(const Tile& tile, std::size_t limit) {
  auto bytes = folder_.read(tile.path(), limit);
  const auto missing = [&] { return !bytes && bytes.error().code == ErrorCode::kNotFound; };
  const bool instead = missing() && !tile.full();  // replaced by the full tile meanwhile
  if (instead) bytes = folder_.read(tile.full_path(), limit);
  if (missing()) {
    const unsigned level = tile.level == Tile::kEntries ? 0 : tile.level;
    return at_file(tile.path(), "it is missing; it begins at entry " +
                                    decimal((tile.index * kTileWidth) << (8 * level)));
  }
  if (!bytes) return bytes.error();
  return Contents{*std::move(bytes), instead || tile.full() ? kTileWidth : tile.width};
}

Result<Bundle> TileReader::bundle(const Tile& tile) {
  TRY(Contents contents, read(tile, kBundleBytes));
  auto entries = parse_bundle(contents.bytes, contents.width);
  if (!entries) return at_file(tile.path(), entries.error().message);
  if (tile.width < entries->size()) {
    contents.bytes.resize((*entries)[tile.width].offset);
    entries->resize(tile.width);
  }
  return Bundle{std::move(contents.bytes), *std::move(entries)};
}

Result<std::vector<Hash256>> TileReader::hashes(const Tile& tile) {
  const std::string path = tile.path();
  if (const auto kept = kept_.find(path); kept != kept_.end()) return kept->second;
  TRY(const Contents contents, read(tile, kTileBytes));
  const std::size_t right = contents.width * sizeof(Hash256);
  if (contents.bytes.size() != right) {
    return at_file(path, "it has " + decimal(contents.bytes.size()) + " bytes; " +
                             decimal(contents.width) + " hashes have " + decimal(right));
  }
  std::vector<Hash256> hashes(contents.width);
  std::memcpy(hashes.data(), contents.bytes.data(), right);
  hashes.resize(tile.width);
  if (kept_.size() >= kTilesKept) kept_.clear();
  kept_.emplace(path, hashes);
  return hashes;
}

Result<Hash256> TileReader::node(unsigned level, std::uint64_t index) {
  const unsigned in_tile = level % 8;
  const std::uint64_t first = index << in_tile;
  const unsigned tile_level = level / 8;
  const Tile tile{tile_level, first / kTileWidth,
                  tile_width(tile_level, first / kTileWidth, size_)};
  const std::size_t at = first % kTileWidth;
  const std::size_t count = std::size_t{1} << in_tile;
  REQUIRE(at + count <= tile.width, "a log of ", decimal(size_), " entries has no node ",
          decimal(index), " at level ", decimal(level));
  TRY(const std::vector<Hash256> all, hashes(tile));
  return subtree_root(std::span(all).subspan(at, count));
}

NodeReader TileReader::nodes() {
  return [this](unsigned level, std::uint64_t index) { return node(level, index); };
}

Result<Checkpoint> read_checkpoint(LogFolder& folder) {
  const std::string name(kCheckpointFile);
  auto bytes = folder.read(name, limits::kNoteBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) {
    const auto tiles = folder.list("tile/");
    if (!tiles || tiles->empty()) return Error{ErrorCode::kNotFound, "there is no log here"};
    return at_file(name, "it is missing, but there are tiles");
  }
  if (!bytes) return bytes.error();
  auto checkpoint = parse_checkpoint(*bytes, ForeignLines::kRefuse);
  if (!checkpoint) return at_file(name, checkpoint.error().message);
  return checkpoint;
}

std::string witness_file(const PublicKey& witness) {
  return std::string(kWitnessFolder) + witness.hex();
}

Result<Scan> scan_log(LogFolder& folder, const ScanOptions& options, const EntryVisitor& visit) {
  std::vector<std::string> damaged;
  TRY(std::vector<Checkpoint> cosigned, read_all_cosigned(folder, options, damaged));
  TRY(Checkpoint checkpoint, read_checkpoint(folder));
  TRY(Scan scan, Scanner(folder, options, visit, std::move(checkpoint), std::move(cosigned)).run());
  scan.damaged = std::move(damaged);
  return scan;
}

}  // namespace hearth::ledger
