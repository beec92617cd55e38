// Weight matrices in the order in which a card reads them. The meaning is the file's, and so is the
// number of bytes.
//
// A tile is 32 rows of one super-block of the file (256 columns for K and XS types, else 32), one
// row a lane of a warp; tiles follow one another along the columns, then down the rows. A row's
// share of a tile is its record, as many bytes as the super-block has in the file:
//
//   words of quants, by planes of bits as matrix_view.h has them, each plane block after block:
//     bytes    8 words a block; word g holds columns 4 g ..+3, as signed bytes q
//     nibbles  4 words a block; word g holds columns 4 g ..+3 low and 16 + 4 g ..+3 high; of the
//              codebook's types column 8 g + j at bit 4 j
//     pairs    2 words a block; word h holds columns 16 h + 4 g ..+3, from bit 2 g of each byte on
//     singles  1 word a block; columns 4 g ..+3 at bit g of each byte
//   the file's integer scales, as they are (12 or 16 bytes; 4 of IQ4_XS, its l)
//   d, and then m, dmin or IQ4_XS's h where the type has one
//
// Floating weights are as in the file. A tile holds its 32 records by pieces of 16 bytes: piece 0
// of every lane, piece 1 of every lane, and so on; what is left of a record after the last 16 by
// pieces of 8, 4 and 2. So a warp reads whole lines, and each lane finds its own row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/matrix_view.h"

namespace hearth::kernels::cuda {

inline constexpr std::uint32_t kTileRows = 32;

// First words of a record's parts. Without a part its place is that of the next.
struct RecordLayout {
  std::uint32_t nibbles = 0;
  std::uint32_t pairs = 0;
  std::uint32_t singles = 0;
  std::uint32_t scales = 0;
  std::uint32_t d = 0;
};

// The first of WeightType have tiles; a GPU computes no others.
inline constexpr std::uint32_t kTileTypes = static_cast<std::uint32_t>(WeightType::kIQ4_XS) + 1;
constexpr bool has_tiles(WeightType type) { return static_cast<std::uint32_t>(type) < kTileTypes; }

constexpr std::uint32_t scale_words(WeightType type) {
  switch (type) {
    case WeightType::kQ2_K:
    case WeightType::kQ6_K: return 4;
    case WeightType::kQ3_K:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K: return 3;
    case WeightType::kIQ4_XS: return 1;
    default: return 0;
  }
}

constexpr bool has_nibbles(std::uint32_t bits) { return bits >= 4 && bits <= 6; }
constexpr bool has_pairs(std::uint32_t bits) { return bits == 2 || bits == 3 || bits == 6; }
constexpr bool has_singles(std::uint32_t bits) { return bits == 3 || bits == 5; }

constexpr RecordLayout record_layout_of(WeightType type) {
  const WeightLayout layout = layout_of(type);
  const std::uint32_t bits = layout.bits;
  RecordLayout record;
  record.nibbles = bits == 8 ? 8U * layout.blocks : 0U;
  record.pairs = record.nibbles + (has_nibbles(bits) ? 4U * layout.blocks : 0U);
  record.singles = record.pairs + (has_pairs(bits) ? 2U * layout.blocks : 0U);
  record.scales = record.singles + (has_singles(bits) ? 1U * layout.blocks : 0U);
  record.d = record.scales + scale_words(type);
  return record;
}

constexpr std::uint32_t record_words(WeightType type) {
  return (layout_of(type).file_bytes + 3U) / 4U;
}

// Where in a tile word `word` of lane `lane`'s record of `bytes` bytes begins.
constexpr std::size_t word_offset(std::uint32_t bytes, std::uint32_t word, std::uint32_t lane) {
  std::size_t base = 0;
  for (std::uint32_t piece = 16; piece > 2; piece /= 2) {
    const std::uint32_t words =
        piece == 16 ? bytes / 16 * 4 : (bytes % (2 * piece)) / piece * piece / 4;
    if (word < words) {
      const std::uint32_t in_piece = piece / 4;
      return base + (word / in_piece * kTileRows + lane) * piece + word % in_piece * 4;
    }
    word -= words;
    base += std::size_t{words} * 4 * kTileRows;
  }
  return base + lane * 2;
}

struct TileShape {
  std::uint32_t tiles = 0;    // of 32 rows
  std::uint32_t records = 0;  // of a row
  std::size_t tile_bytes = 0;
  std::size_t bytes() const { return std::size_t{tiles} * records * tile_bytes; }
};
TileShape tile_shape(WeightType type, std::uint32_t rows, std::uint32_t cols);

// Packs rows of a matrix, as the file has them, into memory of tile_shape(...).bytes() bytes, with
// the exponent B of each row beside them (tiles * 32 of them). Rows that fill the last tile are
// zero. A matrix may be packed in parts of whole tiles: any number of rows that is a multiple of
// 32, then the rest. Errors as PackedMatrix::pack, with rows counted from the part's first;
// kInvalidInput also for a type without tiles and for memory of another size.
Status pack_tiles(WeightType type, std::uint32_t rows, std::uint32_t cols, ByteSpan blocks,
                  MutableByteSpan tiles, std::span<std::int32_t> exponents);

// A packed matrix in a card's memory; `tiles` is 16-byte aligned.
struct CardMatrix {
  WeightType type = WeightType::kQ8_0;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  const std::byte* tiles = nullptr;
  const std::int32_t* exponents = nullptr;
};

}  // namespace hearth::kernels::cuda
