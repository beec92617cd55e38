#include "ledger/tiles.h"

#include "base/number.h"

namespace hearth::ledger {
namespace {

// Formats 1234067 as x001/x234/067.
std::string index_path(std::uint64_t index) {
  const auto group = [](std::uint64_t value) {
    const std::string digits = std::to_string(value);
    return std::string(3 - digits.size(), '0') + digits;
  };
  std::string path = group(index % 1000);
  for (index /= 1000; index > 0; index /= 1000) path = "x" + group(index % 1000) + "/" + path;
  return path;
}

}  // namespace

std::string Tile::full_path() const {
  const std::string place = level == kEntries ? "entries" : std::to_string(level);
  return "tile/" + place + "/" + index_path(index);
}

std::string Tile::partials() const { return full_path() + ".p/"; }

std::string Tile::path() const { return full() ? full_path() : partials() + std::to_string(width); }

std::optional<Tile> parse_tile_path(std::string_view path) {
  // Parses leniently, then compares with the result of path().
  const std::string_view whole = path;
  constexpr std::string_view kRoot = "tile/";
  if (!path.starts_with(kRoot) || path.size() > 64) return std::nullopt;
  path.remove_prefix(kRoot.size());
  Tile tile;
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto level = parse_number<std::uint64_t>(path.substr(0, slash));
  if (!level && path.substr(0, slash) != "entries") return std::nullopt;
  if (level && *level >= kTileLevels) return std::nullopt;
  tile.level = level ? static_cast<unsigned>(*level) : Tile::kEntries;
  path.remove_prefix(slash + 1);
  if (const std::size_t partial = path.find(".p/"); partial != std::string_view::npos) {
    const auto width = parse_number<std::uint64_t>(path.substr(partial + 3));
    if (!width || *width == 0 || *width >= kTileWidth) return std::nullopt;
    tile.width = static_cast<std::uint32_t>(*width);
    path = path.substr(0, partial);
  }
  std::string digits;
  for (const char c : path) {
    if (c != 'x' && c != '/') digits += c;
  }
  const auto index = parse_number<std::uint64_t>(digits);
  if (!index) return std::nullopt;
  tile.index = *index;
  return tile.path() == whole ? std::optional(tile) : std::nullopt;
}

std::uint64_t level_size(unsigned level, std::uint64_t size) {
  return level == Tile::kEntries ? size : size >> (8 * level);
}

std::uint32_t tile_width(unsigned level, std::uint64_t index, std::uint64_t size) {
  const std::uint64_t hashes = level_size(level, size);
  if (index < hashes / kTileWidth) return kTileWidth;
  return index == hashes / kTileWidth ? static_cast<std::uint32_t>(hashes % kTileWidth) : 0;
}

void append_to_bundle(Bytes& bundle, ByteSpan entry) {
  bundle.push_back(static_cast<std::byte>(entry.size() >> 8));
  bundle.push_back(static_cast<std::byte>(entry.size()));
  bundle.insert(bundle.end(), entry.begin(), entry.end());
}

Result<std::vector<BundleEntry>> parse_bundle(ByteSpan bundle, std::uint32_t width) {
  std::vector<BundleEntry> entries;
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < width; ++i) {
    REQUIRE(bundle.size() - at >= 2, "it ends at byte ", bundle.size(), ", before its entry ", i,
            " of ", width);
    const std::size_t length = std::to_integer<std::size_t>(bundle[at]) << 8 |
                               std::to_integer<std::size_t>(bundle[at + 1]);
    REQUIRE(bundle.size() - at - 2 >= length, "its entry ", i, " at byte ", at, " has ", length,
            " bytes by its length, but only ", bundle.size() - at - 2, " follow");
    entries.push_back({at, bundle.subspan(at + 2, length)});
    at += 2 + length;
  }
  REQUIRE(at == bundle.size(), bundle.size() - at, " bytes follow its last entry, from byte ", at);
  return entries;
}

}  // namespace hearth::ledger
