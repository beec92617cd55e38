// The files of a log, as C2SP tlog-tiles lays them out. A tile holds up to 256 hashes: at level 0
// of entries, above of the full tiles below. An entry bundle holds the entries of a tile of level
// 0, each behind its length in two bytes, big-endian. The last tile of a level may be partial; its
// name says how wide it is, so that no file ever changes but the checkpoint.
//
//   checkpoint   tile/0/x001/x234/067   tile/0/000.p/7   tile/entries/000.p/7
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/result.h"

namespace hearth::ledger {

inline constexpr std::uint32_t kTileWidth = 256;
inline constexpr unsigned kTileLevels = 6;
inline constexpr std::size_t kBundleBytes = kTileWidth * (2 + limits::kLogEntryBytes);
inline constexpr std::size_t kTileBytes = kTileWidth * sizeof(Hash256);

static_assert(limits::kLogEntries >> (8 * kTileLevels) == 0, "every hash of a log has a level");

struct Tile {
  static constexpr unsigned kEntries = 255;  // as a level: the bundle

  unsigned level = 0;
  std::uint64_t index = 0;
  std::uint32_t width = kTileWidth;

  bool full() const { return width == kTileWidth; }
  std::string path() const;
  std::string folder() const;     // of the file, with its slash
  std::string full_path() const;  // of the full tile in this place
  std::string partials() const;   // the folder of its partial tiles, with its slash
  friend bool operator==(const Tile&, const Tile&) = default;
};

// Nothing for a path that Tile::path() does not write.
std::optional<Tile> parse_tile_path(std::string_view path);

// Hashes of `level` (or bundles) of a log of `size` entries; kTileWidth of them make a full tile.
std::uint64_t level_size(unsigned level, std::uint64_t size);
// How wide a log of `size` entries has its tile: 0 when it has none there.
std::uint32_t tile_width(unsigned level, std::uint64_t index, std::uint64_t size);

void append_to_bundle(Bytes& bundle, ByteSpan entry);

struct BundleEntry {
  std::size_t offset = 0;  // of its length, in the bundle
  ByteSpan bytes;
};
// The entries of a bundle, exactly `width` of them. On a refusal the message names the byte.
Result<std::vector<BundleEntry>> parse_bundle(ByteSpan bundle, std::uint32_t width);

}  // namespace hearth::ledger
