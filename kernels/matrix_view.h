// MatrixView, WeightLayout and PageOffsets: the memory that the kernel tables read. Plain data
// filled by functions compiled once, so that no inline code of a class is compiled for one
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.h"
#include "kernels/kernels.h"

namespace hearth::kernels {

// A packed super-block holds 16 rows x 32 (or 256) columns: a header of scales, then 1 (or 8)
// blocks of 16 rows x 32 columns. With r a row of the group, k a column of the block and
// lane = r * 4 + k % 4:
//   header  d[16], then m[16] or dmin[16] where the type has them; of MXFP4 the bytes e[16];
//   block   integer scales, byte r and byte 16 + r:
//             Q4_K, Q5_K    s, t                 IQ4_XS  s - 32 (16 bytes only)
//             Q3_K, Q6_K    S[0], S[1] (int8)    Q2_K    S[0] + 16 T[0], S[1] + 16 T[1]
//             types with a grid: the integer factor of D (16 bytes only), or S[0], S[1]
//           then the stored quants, q + zero or an index, by planes of bits, lowest first:
//             bytes   (8 bits)          byte (k / 4) * 64 + lane
//             nibbles (4, 5 and 6 bits) byte (k / 4 % 4) * 64 + lane, high half for k >= 16
//             pairs   (2, 3 and 6 bits) byte (k / 16) * 64 + lane, from bit 2 * (k / 4 % 4) on
//             singles (3 and 5 bits)    byte lane, bit k / 4
//   Indices are of codebook_of(type); the weights of a grid's entry are stored one by one.
//   Floating weights have no header: number k * 16 + r of the block, as in the file.
enum class BlockForm : std::uint8_t { kFloat, kOneScale, kTwoScales };

struct WeightLayout {
  BlockForm form = BlockForm::kFloat;
  bool minimum = false;            // the type has M
  std::uint8_t codebook = 0;       // where a quant is an index of codebook_of(type): what is added
                                   // to its values so that none is negative, a power of two
  std::uint8_t bits = 0;           // of a stored quant
  std::uint8_t zero = 0;           // what is added to q to store it
  std::uint8_t blocks = 1;         // of 32 columns, in a super-block
  std::uint8_t integer_bytes = 0;  // of integer scales, of a row's block of 32
  std::uint16_t file_bytes = 0;    // of a super-block of one row in the file
  std::uint16_t d_offset = 0;      // of d in them; m or dmin follows it
  bool power = false;              // D is a power of two, held as the byte e in place of d
  std::uint8_t fraction = 0;       // D is 2^-fraction * d times the integer scale

  constexpr std::size_t scale_bytes() const { return power ? 1 : 2; }  // of a row in the header
  constexpr std::size_t header_bytes() const {
    return form == BlockForm::kFloat ? 0 : (minimum ? 2U : 1U) * kRowGroup * scale_bytes();
  }
  constexpr std::size_t quant_bytes() const {
    return form == BlockForm::kFloat ? std::size_t{kRowGroup} * file_bytes
                                     : std::size_t{kRowGroup} * kBlock * bits / 8;
  }
  constexpr std::size_t block_bytes() const {
    return std::size_t{kRowGroup} * integer_bytes + quant_bytes();
  }
  constexpr std::size_t super_bytes() const { return header_bytes() + blocks * block_bytes(); }
  constexpr std::uint32_t columns() const { return blocks * kBlock; }
};

constexpr WeightLayout layout_of(WeightType type) {
  using enum BlockForm;
  switch (type) {  // form, M, codebook, bits, zero, blocks, integers, file bytes, d, power, 2^-n
    case WeightType::kF32: return {kFloat, false, 0, 0, 0, 1, 0, 128, 0};
    case WeightType::kF16: return {kFloat, false, 0, 0, 0, 1, 0, 64, 0};
    case WeightType::kBF16: return {kFloat, false, 0, 0, 0, 1, 0, 64, 0};
    case WeightType::kQ8_0: return {kOneScale, false, 0, 8, 128, 1, 0, 34, 0};
    case WeightType::kQ4_0: return {kOneScale, false, 0, 4, 8, 1, 0, 18, 0};
    case WeightType::kQ4_1: return {kOneScale, true, 0, 4, 0, 1, 0, 20, 0};
    case WeightType::kQ5_0: return {kOneScale, false, 0, 5, 16, 1, 0, 22, 0};
    case WeightType::kQ5_1: return {kOneScale, true, 0, 5, 0, 1, 0, 24, 0};
    case WeightType::kIQ4_NL: return {kOneScale, false, 128, 4, 0, 1, 0, 18, 0};
    case WeightType::kQ2_K: return {kTwoScales, true, 0, 2, 0, 8, 2, 84, 80};
    case WeightType::kQ3_K: return {kTwoScales, false, 0, 3, 4, 8, 2, 110, 108};
    case WeightType::kQ4_K: return {kOneScale, true, 0, 4, 0, 8, 2, 144, 0};
    case WeightType::kQ5_K: return {kOneScale, true, 0, 5, 0, 8, 2, 176, 0};
    case WeightType::kQ6_K: return {kTwoScales, false, 0, 6, 32, 8, 2, 210, 208};
    case WeightType::kIQ4_XS: return {kOneScale, false, 128, 4, 0, 8, 1, 136, 0};
    case WeightType::kMXFP4: return {kOneScale, false, 16, 4, 0, 1, 0, 17, 0, true};
    case WeightType::kIQ2_XXS: return {kOneScale, false, 64, 3, 0, 8, 1, 66, 0, false, 3};
    case WeightType::kIQ2_XS: return {kTwoScales, false, 64, 3, 0, 8, 2, 74, 0, false, 3};
    case WeightType::kIQ2_S: return {kTwoScales, false, 64, 3, 0, 8, 2, 82, 0, false, 3};
    case WeightType::kIQ3_XXS: return {kOneScale, false, 64, 4, 0, 8, 1, 98, 0, false, 2};
    case WeightType::kIQ3_S: return {kOneScale, false, 16, 4, 0, 8, 1, 110, 0};
    case WeightType::kIQ1_S: return {kOneScale, false, 16, 3, 0, 8, 1, 50, 0, false, 3};
    case WeightType::kIQ1_M: return {kTwoScales, false, 16, 3, 0, 8, 2, 56, 48, false, 3};
    case WeightType::kTQ1_0: return {kOneScale, false, 0, 2, 1, 8, 0, 54, 52};
    case WeightType::kTQ2_0: return {kOneScale, false, 0, 2, 1, 8, 0, 66, 64};
  }
  return {};
}

// The layouts agree with each other: a super-block has the columns that the canonical text gives
// it, and its quants and scales in the packed form take no fewer bytes than in the file.
constexpr bool layouts_agree() {
  for (std::uint32_t i = 0; i < kWeightTypes; ++i) {
    const WeightLayout layout = layout_of(static_cast<WeightType>(i));
    if (layout.columns() != kBlock && layout.columns() != kSuperBlock) return false;
    if (layout.file_bytes == 0 || layout.super_bytes() < std::size_t{kRowGroup} * layout.file_bytes)
      return false;
    if (layout.form != BlockForm::kFloat &&
        layout.d_offset + (layout.minimum ? 2 : 1) * layout.scale_bytes() > layout.file_bytes)
      return false;
    if (layout.block_bytes() % kRowGroup != 0) return false;
  }
  return true;
}
static_assert(layouts_agree());

inline constexpr std::int8_t kCodebook[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kFloatCodebook[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                   0, -1, -2, -3, -4, -6, -8, -12};

// Codebooks of the types with a grid: its values, then the negative ones. In IQ1: 8 times the
// grid's value, plus 1 or -1.
inline constexpr std::int8_t kTwoBitCodebook[16] = {8, 25, 43, 0, -8, -25, -43};
inline constexpr std::int8_t kThreeBitCodebook[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                                      -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr std::int8_t kOddCodebook[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                                 -1, -3, -5, -7, -9, -11, -13, -15};
inline constexpr std::int8_t kOneBitCodebook[16] = {-7, 1, 9, 0, -9, -1, 7};

// 16 values; none for a type without a codebook.
constexpr std::span<const std::int8_t> codebook_values(WeightType type) {
  switch (type) {
    case WeightType::kIQ4_NL:
    case WeightType::kIQ4_XS: return kCodebook;
    case WeightType::kMXFP4: return kFloatCodebook;
    case WeightType::kIQ2_XXS:
    case WeightType::kIQ2_XS:
    case WeightType::kIQ2_S: return kTwoBitCodebook;
    case WeightType::kIQ3_XXS: return kThreeBitCodebook;
    case WeightType::kIQ3_S: return kOddCodebook;
    case WeightType::kIQ1_S:
    case WeightType::kIQ1_M: return kOneBitCodebook;
    default: return {};
  }
}

// The same; null for a type without a codebook.
constexpr const std::int8_t* codebook_of(WeightType type) { return codebook_values(type).data(); }

// Every type with a codebook has one, and what is added to its values makes none negative. Pointers
// are not compared: GCC 12 does not take that for constant under UBSan.
constexpr bool codebooks_agree() {
  for (std::uint32_t i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const int added = layout_of(type).codebook;
    if (codebook_values(type).empty() != (added == 0)) return false;
    for (const std::int8_t value : codebook_values(type)) {
      if (value + added < 0) return false;
    }
  }
  return true;
}
static_assert(codebooks_agree());

struct MatrixView {
  WeightType type;
  std::uint32_t rows;
  std::uint32_t groups;
  std::uint32_t blocks;     // of 32 columns, of a row
  std::size_t group_bytes;  // of all super-blocks of 16 rows
  const std::byte* data;
  const std::int32_t* exponents;
};
MatrixView view_of(const PackedMatrix& matrix);

// A kv head's part of a page. With s a slot, d a dimension:
//   keys    byte ((s / 16) * (head_dim / 4) + d / 4) * 64 + (s % 16) * 4 + d % 4, holding k + 128;
//   key_scales    [(s / 16) * (head_dim / 32) + d / 32] * 16 + s % 16;
//   values  byte ((s / 4) * head_dim + d) * 4 + s % 4;
//   value_scales  [s].
struct PageOffsets {
  std::size_t head_bytes;
  std::size_t key_scales;
  std::size_t values;
  std::size_t value_scales;
};
PageOffsets page_offsets(std::uint32_t head_dim);

// Dimensions of a head that a kernel may keep on its stack.
inline constexpr std::uint32_t kHeadDimMax = 512;
static_assert(kHeadDimMax % kBlock == 0 && kHeadDimMax >= limits::kModelHeadDim);
// Positions of a sequence: the kernels compare them as 32-bit integers with a sign.
inline constexpr std::uint32_t kPositionsMax = 1U << 30;
static_assert(kPositionsMax >= limits::kModelContext);
// Every array of a KV head begins at a cache line, whatever the head's dimension is.
static_assert(kPageTokens * kBlock % 64 == 0 && kPageTokens * sizeof(float) % 64 == 0);
static_assert(kPageTokens % 16 == 0, "a page is whole vectors of 16 positions");

}  // namespace hearth::kernels
