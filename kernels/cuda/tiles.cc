#include "kernels/cuda/tiles.h"

#include <algorithm>
#include <cstring>

#include "kernels/weight_rows.h"

namespace hearth::kernels::cuda {
namespace {

constexpr std::uint32_t kWordsMost = 53;

// Every record ends with its d, and is as long as the super-block in the file.
constexpr bool records_fit() {
  for (std::uint32_t i = 0; i < kTileTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const WeightLayout layout = layout_of(type);
    if (layout.form == BlockForm::kFloat) continue;
    const std::uint32_t d_bytes = layout.minimum || type == WeightType::kIQ4_XS ? 4 : 2;
    if (record_layout_of(type).d * 4 + d_bytes != layout.file_bytes) return false;
    if (record_words(type) > kWordsMost) return false;
  }
  return true;
}
static_assert(records_fit());

using Words = std::uint32_t[kWordsMost];

// One block's quants into the planes of its record.
void place_quants(const WeightLayout& layout, const RecordLayout& record, const FileBlock& block,
                  std::uint32_t b, Words& words) {
  const auto bits = layout.bits;
  std::uint32_t shift = 0;
  if (bits == 8) {
    for (std::uint32_t g = 0; g < 8; ++g) words[8 * b + g] = block.quads[g] ^ 0x80808080U;
  }
  if (has_nibbles(bits)) {
    shift = 4;
    for (std::uint32_t g = 0; g < 4; ++g) {
      std::uint32_t word = 0;
      for (std::uint32_t j = 0; j < 8 && layout.codebook != 0; ++j) {
        word |= (block.quads[2 * g + j / 4] >> (8 * (j % 4)) & 15U) << (4 * j);
      }
      if (layout.codebook == 0) {
        word = (block.quads[g] & 0x0F0F0F0FU) | (block.quads[g + 4] & 0x0F0F0F0FU) << 4;
      }
      words[record.nibbles + 4 * b + g] = word;
    }
  }
  if (has_pairs(bits)) {
    for (std::uint32_t h = 0; h < 2; ++h) {
      std::uint32_t word = 0;
      for (std::uint32_t g = 0; g < 4; ++g) {
        word |= (block.quads[4 * h + g] >> shift & 0x03030303U) << (2 * g);
      }
      words[record.pairs + 2 * b + h] = word;
    }
    shift += 2;
  }
  if (has_singles(bits)) {
    std::uint32_t word = 0;
    for (std::uint32_t g = 0; g < 8; ++g) word |= (block.quads[g] >> shift & 0x01010101U) << g;
    words[record.singles + b] = word;
  }
}

// Where the file's super-block has the integer scales that a record takes as they are.
std::size_t scales_offset(WeightType type) {
  switch (type) {
    case WeightType::kQ3_K: return 96;
    case WeightType::kQ6_K: return 192;
    case WeightType::kQ2_K: return 0;
    default: return 4;
  }
}

void make_record(WeightType type, const std::byte* file, RowMagnitude& bound, Words& words) {
  const WeightLayout layout = layout_of(type);
  if (layout.form == BlockForm::kFloat) {
    std::memcpy(words, file, layout.file_bytes);
    return;
  }
  const RecordLayout record = record_layout_of(type);
  for (std::uint32_t b = 0; b < layout.blocks; ++b) {
    const FileBlock block = read_file_block(type, file, b);
    bound.add(block);
    place_quants(layout, record, block, b, words);
  }
  std::memcpy(&words[record.scales], file + scales_offset(type), scale_words(type) * 4);
  words[record.d] = 0;
  std::memcpy(&words[record.d], file + layout.d_offset, layout.file_bytes - record.d * 4);
}

void place_record(std::uint32_t bytes, const Words& words, std::uint32_t lane, std::byte* tile) {
  for (std::uint32_t w = 0; w * 4 < bytes; ++w) {
    std::memcpy(tile + word_offset(bytes, w, lane), &words[w], std::min(4U, bytes - w * 4));
  }
}

}  // namespace

TileShape tile_shape(WeightType type, std::uint32_t rows, std::uint32_t cols) {
  const WeightLayout layout = layout_of(type);
  return {(rows + kTileRows - 1) / kTileRows, cols / layout.columns(),
          std::size_t{kTileRows} * layout.file_bytes};
}

Status pack_tiles(WeightType type, std::uint32_t rows, std::uint32_t cols, ByteSpan blocks,
                  MutableByteSpan tiles, std::span<std::int32_t> exponents) {
  REQUIRE(has_tiles(type), "no GPU computes this type of weights");
  TRY_VOID(check_weight_shape(type, rows, cols));
  TRY_VOID(check_weight_bytes(type, rows, cols, blocks.size()));
  const TileShape shape = tile_shape(type, rows, cols);
  const std::size_t exponents_needed = std::size_t{shape.tiles} * kTileRows;
  REQUIRE(tiles.size() == shape.bytes() && exponents.size() == exponents_needed, "memory of ",
          tiles.size(), " bytes and ", exponents.size(),
          " exponents for a weight matrix that needs ", shape.bytes(), " and ", exponents_needed);
  const std::uint32_t bytes = layout_of(type).file_bytes;
  const std::byte* file = blocks.data();
  if (rows % kTileRows != 0) {
    const std::size_t last = shape.records * shape.tile_bytes;
    std::memset(tiles.data() + tiles.size() - last, 0, last);
  }
  std::fill(exponents.begin(), exponents.end(), kWeightExponentMin);
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::byte* tile = tiles.data() + row / kTileRows * shape.records * shape.tile_bytes;
    RowMagnitude bound(type);
    for (std::uint32_t r = 0; r < shape.records; ++r) {
      Words words;
      if (!bound.add(file)) return refused_weight(type, row, r);
      make_record(type, file, bound, words);
      place_record(bytes, words, row % kTileRows, tile);
      file += bytes;
      tile += shape.tile_bytes;
    }
    exponents[row] = bound.exponent(cols);
  }
  return ok_status();
}

}  // namespace hearth::kernels::cuda
