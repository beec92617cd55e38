// Sixteen rows packed at once give the bytes of the same rows packed one by one. A matrix whose
// last row is missing is packed one by one; with a row of zero weights there it is packed at once.
#include "kernels/pack_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "kernels/matrix_view.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

constexpr std::uint32_t kAlone = kRowGroup - 1;

// A block of the file whose weights are 0 and whose quants are those of padding.
Bytes zero_block(WeightType type) {
  Bytes block(PackedMatrix::file_block_bytes(type));
  const auto fill = [&](std::size_t begin, std::size_t count, int value) {
    for (std::size_t i = begin; i < begin + count; ++i) block[i] = static_cast<std::byte>(value);
  };
  switch (type) {
    case WeightType::kQ4_0: fill(2, 16, 0x88); break;  // 8 is stored for 0
    case WeightType::kQ5_0: fill(2, 4, 0xFF); break;   // 16
    case WeightType::kQ3_K:
      fill(0, 32, 0xFF);   // 4
      fill(104, 4, 0xAA);  // scales of 32 - 32
      break;
    case WeightType::kQ6_K: fill(128, 64, 0xAA); break;  // 32
    case WeightType::kIQ4_XS: fill(2, 2, 0xAA); break;   // scales of 32 - 32
    case WeightType::kTQ1_0: fill(0, 52, 0x80); break;   // digits of 1
    case WeightType::kTQ2_0: fill(0, 64, 0x55); break;
    default: break;
  }
  return block;
}

// A group whose last row has the integer scales of padding. The smallest that types with a grid can
// have is 1, that of padding is 0; d is 0 in both.
Bytes with_padded_scales(const PackedMatrix& matrix) {
  const WeightLayout layout = layout_of(matrix.type());
  Bytes group(matrix.group(0), matrix.group(0) + matrix.group_bytes());
  if (matrix.type() < WeightType::kIQ2_XXS) return group;
  for (std::size_t at = 0; at < group.size(); at += layout.super_bytes()) {
    for (std::uint32_t i = 0; i < layout.blocks * layout.integer_bytes; ++i) {
      const std::size_t block = i / layout.integer_bytes * layout.block_bytes();
      std::byte& scale =
          group[at + layout.header_bytes() + block + i % layout.integer_bytes * kRowGroup + kAlone];
      EXPECT_EQ(scale, std::byte{1});
      scale = std::byte{0};
    }
  }
  return group;
}

void expect_same(WeightType type, std::uint32_t cols, const Bytes& rows, const std::string& what) {
  const std::size_t row_bytes = rows.size() / kAlone;
  const Bytes one_row = zero_block(type);
  Bytes full = rows;
  while (full.size() < rows.size() + row_bytes) {
    full.insert(full.end(), one_row.begin(), one_row.end());
  }
  const auto alone = PackedMatrix::pack(type, kAlone, cols, rows);
  const auto at_once = PackedMatrix::pack(type, kRowGroup, cols, full);
  ASSERT_TRUE(alone.ok() && at_once.ok()) << what;
  ASSERT_EQ(alone->group_bytes(), at_once->group_bytes());
  EXPECT_EQ(std::memcmp(alone->group(0), with_padded_scales(*at_once).data(), alone->group_bytes()),
            0)
      << what;
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    EXPECT_EQ(alone->row_exponents()[row], at_once->row_exponents()[row]) << what << " " << row;
  }
}

TEST(PackGroup, GivesTheBytesOfRowsPackedOneByOne) {
  Generator random(7);
  for (const WeightType type : kAllTypes) {
    for (const std::uint32_t least : {32U, 256U, 288U, 1'024U, 2'080U}) {
      const std::uint32_t cols = columns_of(type, least);
      for (const float scale : {0.01F, 1e-7F, 3e4F}) {  // subnormal halves, and the largest
        const Bytes rows = weight_blocks(random, type, kAlone, cols, scale);
        expect_same(type, cols, rows,
                    "type " + std::to_string(static_cast<int>(type)) + ", " + std::to_string(cols) +
                        " columns, scale " + std::to_string(scale));
      }
    }
  }
}

TEST(PackGroup, EveryPatternOfAQuantAndItsScales) {
  for (const WeightType type : kAllTypes) {
    if (is_floating(type)) continue;
    const std::uint32_t cols = columns_of(type, 256);
    for (const int pattern : {0x00, 0xFF, 0x55, 0xAA, 0x80, 0x7F, 0x0F, 0xF0}) {
      Generator random(1);
      Bytes rows = weight_blocks(random, type, kAlone, cols, 65504.0F);
      const std::size_t step = PackedMatrix::file_block_bytes(type);
      for (std::size_t at = 0; at < rows.size(); ++at) {
        bool half = false;
        for (const std::size_t offset : half_offsets(type)) {
          const std::size_t width = type == WeightType::kMXFP4   ? 1
                                    : type == WeightType::kIQ1_M ? 8
                                                                 : 2;
          half |= at % step >= offset && at % step < offset + width;
        }
        if (!half) rows[at] = static_cast<std::byte>(pattern);
      }
      expect_same(
          type, cols, rows,
          "type " + std::to_string(static_cast<int>(type)) + " pattern " + std::to_string(pattern));
    }
  }
}

TEST(PackGroup, ARefusedScaleIsNamedAsInARowAlone) {
  Generator random(3);
  for (const WeightType type : kAllTypes) {
    const std::uint32_t cols = columns_of(type, 512);
    Bytes rows = weight_blocks(random, type, 40, cols);
    const std::size_t row_bytes = rows.size() / 40;
    const std::size_t step = PackedMatrix::file_block_bytes(type);
    for (const std::uint32_t bad : {37U, 18U}) {  // in the last group, then in a whole one
      const std::size_t at = bad * row_bytes + step + half_offsets(type)[0];
      const std::uint32_t infinite = type == WeightType::kF32    ? 0x7F800000U
                                     : type == WeightType::kBF16 ? 0x7F80U
                                                                 : 0x7C00U;
      if (is_floating(type)) {
        std::memcpy(&rows[at], &infinite, type == WeightType::kF32 ? 4 : 2);
      } else {
        put_refused_scale(type, 0x7C00, &rows[at]);
      }
      const auto refused = PackedMatrix::pack(type, 40, cols, rows);
      ASSERT_FALSE(refused.ok()) << static_cast<int>(type);
      EXPECT_NE(refused.error().message.find("block 1 of row " + std::to_string(bad)),
                std::string::npos)
          << refused.error().message;
    }
  }
}

TEST(PackGroup, PartsOfAMatrixInAnyOrderAreTheWhole) {
  Generator random(9);
  const Bytes blocks = weight_blocks(random, WeightType::kQ4_K, 70, 512);
  const PackedMatrix whole = PackedMatrix::pack(WeightType::kQ4_K, 70, 512, blocks).value();
  PackedMatrix parts = PackedMatrix::allocate(WeightType::kQ4_K, 70, 512).value();
  EXPECT_EQ(parts.bytes(), PackedMatrix::bytes_of(WeightType::kQ4_K, 70, 512));
  for (const std::uint32_t group : {4U, 0U, 3U, 1U, 2U}) {
    ASSERT_TRUE(parts.pack_groups(group, group + 1, blocks).ok());
  }
  EXPECT_EQ(std::memcmp(whole.group(0), parts.group(0), whole.bytes()), 0);
  EXPECT_FALSE(parts.pack_groups(0, 6, blocks).ok());
  EXPECT_FALSE(parts.pack_groups(0, 1, ByteSpan(blocks).first(blocks.size() - 1)).ok());
}

}  // namespace
}  // namespace hearth::kernels
