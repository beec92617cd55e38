// The files of a log in the layout of C2SP tlog-tiles. A tile holds up to 256 hashes: of entries at
// level 0, of full tiles of the level below otherwise. An entry bundle holds the entries of one
// tile of level 0, each after its length in two bytes, big-endian. The last tile of a level may be
// partial. Its name states its width, so only the checkpoint file ever changes. Pure functions, any
// thread.
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
  static constexpr unsigned kEntries = 255;  // the level number that means entry bundles

  unsigned level = 0;
  std::uint64_t index = 0;
  std::uint32_t width = kTileWidth;

  bool full() const { return width == kTileWidth; }
  std::string path() const;
  std::string full_path() const;  // the path of the full tile at this place
  std::string partials() const;   // the folder of its partial tiles, with a slash
  friend bool operator==(const Tile&, const Tile&) = default;
};

// Nothing for a path that Tile::path() cannot produce.
std::optional<Tile> parse_tile_path(std::string_view path);

// The number of hashes at `level` of a log of `size` entries; kTileWidth of them fill a tile.
std::uint64_t level_size(unsigned level, std::uint64_t size);
// The width of a tile in a log of `size` entries; 0 when the tile does not exist.
std::uint32_t tile_width(unsigned level, std::uint64_t index, std::uint64_t size);

void append_to_bundle(Bytes& bundle, ByteSpan entry);

struct BundleEntry {
  std::size_t offset = 0;  // of the entry's length field in the bundle
  ByteSpan bytes;
};
// How many bundles a log of `size` entries has; the last may be partial.
inline std::uint64_t bundle_count(std::uint64_t size) {
  return (size + kTileWidth - 1) / kTileWidth;
}
// Parses a bundle of exactly `width` entries. An error names the byte.
Result<std::vector<BundleEntry>> parse_bundle(ByteSpan bundle, std::uint32_t width);

}  // namespace hearth::ledger
