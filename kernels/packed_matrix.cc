#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "kernels/elementary.h"
#include "kernels/kernels.h"
#include "kernels/matrix_view.h"

namespace hearth::kernels {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kScalesBytes = kRowGroup * 2;

bool has_minimum(WeightType type) { return type == WeightType::kQ4_1; }

std::uint16_t read_half(const std::byte* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  return half;
}

// |half| as an integer multiple of 2^-24; exact for every finite half.
std::uint64_t half_units(std::uint16_t half) {
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint64_t mantissa = half & 0x3FFU;
  return exponent == 0 ? mantissa : (mantissa | 0x400U) << (exponent - 1);
}

std::uint32_t quant_magnitudes(WeightType type, const std::byte* quants) {
  std::uint32_t sum = 0;
  if (type == WeightType::kQ8_0) {
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      sum += static_cast<std::uint32_t>(std::abs(static_cast<std::int8_t>(quants[i])));
    }
    return sum;
  }
  const int zero = type == WeightType::kQ4_0 ? 8 : 0;
  for (std::uint32_t i = 0; i < kBlock / 2; ++i) {
    const int low = std::to_integer<int>(quants[i] & std::byte{15});
    const int high = std::to_integer<int>(quants[i] >> 4);
    sum += static_cast<std::uint32_t>(std::abs(low - zero) + std::abs(high - zero));
  }
  return sum;
}

// The bound of one block's sum of |w|, in units of 2^-24.
std::uint64_t block_units(WeightType type, const std::byte* block) {
  const std::size_t header = has_minimum(type) ? 4 : 2;
  std::uint64_t units = half_units(read_half(block)) * quant_magnitudes(type, block + header);
  if (has_minimum(type)) units += kBlock * half_units(read_half(block + 2));
  return units;
}

// Smallest B >= kWeightExponentMin with units * 2^-24 <= 2^B.
std::int32_t exponent_of(unsigned __int128 units) {
  if (units == 0) return kWeightExponentMin;
  const unsigned __int128 last = units - 1;
  const auto high = static_cast<std::uint64_t>(last >> 64);
  const auto low = static_cast<std::uint64_t>(last);
  const int width = high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
  return width + kWeightExponentMin;
}

// One file block into its row of a group block (layout in matrix_view.h).
void place_block(WeightType type, const std::byte* block, std::uint32_t row, std::byte* packed) {
  std::memcpy(packed + row * 2, block, 2);
  const std::byte* quants = block + 2;
  std::byte* out = packed + kScalesBytes;
  if (has_minimum(type)) {
    std::memcpy(out + row * 2, quants, 2);
    quants += 2;
    out += kScalesBytes;
  }
  const std::byte bias = type == WeightType::kQ8_0 ? std::byte{0x80} : std::byte{0};
  const std::uint32_t count = type == WeightType::kQ8_0 ? kBlock : kBlock / 2;
  for (std::uint32_t i = 0; i < count; ++i) {
    out[(i / 4) * 64 + row * 4 + i % 4] = quants[i] ^ bias;
  }
}

bool scales_are_finite(WeightType type, const std::byte* block) {
  return half_is_finite(read_half(block)) &&
         (!has_minimum(type) || half_is_finite(read_half(block + 2)));
}

// Rows of zero weight fill the last group: the value zero of each type's quants.
void fill_padding(WeightType type, std::byte* group, std::size_t blocks, std::size_t block_bytes) {
  const std::size_t header = kScalesBytes * (has_minimum(type) ? 2 : 1);
  const int zero = type == WeightType::kQ8_0 ? 0x80 : type == WeightType::kQ4_0 ? 0x88 : 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    std::memset(group + b * block_bytes, 0, header);
    std::memset(group + b * block_bytes + header, zero, block_bytes - header);
  }
}

}  // namespace

void PackedMatrix::Free::operator()(std::byte* data) const { std::free(data); }

std::size_t PackedMatrix::group_block_bytes(WeightType type) {
  switch (type) {
    case WeightType::kQ8_0: return kScalesBytes + kRowGroup * kBlock;
    case WeightType::kQ4_0: return kScalesBytes + kRowGroup * kBlock / 2;
    case WeightType::kQ4_1: return 2 * kScalesBytes + kRowGroup * kBlock / 2;
  }
  return 0;
}

std::size_t PackedMatrix::file_block_bytes(WeightType type) {
  return group_block_bytes(type) / kRowGroup;
}

Result<PackedMatrix> PackedMatrix::pack(WeightType type, std::uint32_t rows, std::uint32_t cols,
                                        ByteSpan blocks) {
  REQUIRE(rows > 0 && cols > 0, "a weight matrix has no rows or no columns");
  REQUIRE(cols % kBlock == 0, "columns of a weight matrix (" + std::to_string(cols) +
                                  ") are not a multiple of " + std::to_string(kBlock));
  const std::size_t file_block = file_block_bytes(type);
  const std::size_t row_blocks = cols / kBlock;
  REQUIRE(blocks.size() / file_block / row_blocks == rows &&
              blocks.size() == std::size_t{rows} * row_blocks * file_block,
          "a weight matrix of " + std::to_string(rows) + " x " + std::to_string(cols) + " has " +
              std::to_string(blocks.size()) + " bytes, not the size of its type");

  PackedMatrix matrix;
  matrix.type_ = type;
  matrix.rows_ = rows;
  matrix.cols_ = cols;
  const std::size_t block_bytes = group_block_bytes(type);
  const std::size_t group_bytes = block_bytes * row_blocks;
  matrix.bytes_ = group_bytes * matrix.groups();
  const std::size_t rounded = (matrix.bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  matrix.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (!matrix.data_) {
    return Error{ErrorCode::kNoCapacity,
                 "no memory for a weight matrix of " + std::to_string(rounded) + " bytes"};
  }
  matrix.row_exponents_.assign(std::size_t{matrix.groups()} * kRowGroup, kWeightExponentMin);
  fill_padding(type, matrix.data_.get() + (matrix.groups() - 1) * group_bytes, row_blocks,
               block_bytes);

  for (std::uint32_t row = 0; row < rows; ++row) {
    std::byte* group = matrix.data_.get() + (row / kRowGroup) * group_bytes;
    unsigned __int128 units = 0;
    for (std::size_t b = 0; b < row_blocks; ++b) {
      const std::byte* block = blocks.data() + (row * row_blocks + b) * file_block;
      REQUIRE(scales_are_finite(type, block), "the scale of block " + std::to_string(b) +
                                                  " of row " + std::to_string(row) +
                                                  " of a weight matrix is not finite");
      units += block_units(type, block);
      place_block(type, block, row % kRowGroup, group + b * block_bytes);
    }
    matrix.row_exponents_[row] = exponent_of(units);
  }
  return matrix;
}

const std::byte* PackedMatrix::group(std::uint32_t index) const {
  return data_.get() + std::size_t{index} * group_block_bytes(type_) * (cols_ / kBlock);
}

MatrixView view_of(const PackedMatrix& matrix) {
  return {matrix.type(),
          matrix.rows(),
          matrix.groups(),
          matrix.cols() / kBlock,
          PackedMatrix::group_block_bytes(matrix.type()),
          matrix.group(0),
          matrix.row_exponents()};
}

PageOffsets page_offsets(std::uint32_t head_dim) {
  PageOffsets offsets{};
  offsets.key_scales = std::size_t{kPageTokens} * head_dim;
  offsets.values = offsets.key_scales + std::size_t{kPageTokens} * (head_dim / kBlock) * 4;
  offsets.value_scales = offsets.values + std::size_t{kPageTokens} * head_dim;
  offsets.head_bytes = offsets.value_scales + std::size_t{kPageTokens} * 4;
  return offsets;
}

std::size_t KvLayout::head_bytes() const { return page_offsets(head_dim).head_bytes; }

// A float for every head and every position of the pages touched.
std::size_t attention_scratch(std::uint32_t group, std::uint32_t positions) {
  const std::size_t padded =
      (std::size_t{positions} + 2 * kPageTokens - 1) / kPageTokens * kPageTokens;
  return group * padded;
}

}  // namespace hearth::kernels
