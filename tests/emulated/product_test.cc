// The matrix product of few rows and the packed layout under it against the scalar table: equality
// of bits for every type, over shapes with tails, with several seeds of the emulated card.
#include "kernels/cuda/product.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "card.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels::cuda {
namespace {

using namespace fixtures;  // NOLINT
using card::Input;
using card::Memory;

const Kernels& scalar() { return *kernels_named("scalar").value(); }

// A matrix as the scalar table and as the card have it.
struct Both {
  Both(WeightType type, std::uint32_t rows, std::uint32_t cols, const Bytes& file)
      : packed(PackedMatrix::pack(type, rows, cols, file).value()),
        tiles(tile_shape(type, rows, cols).bytes()),
        exponents(std::size_t{tile_shape(type, rows, cols).tiles} * kTileRows),
        ok(pack_tiles(type, rows, cols, file, tiles, exponents).ok()),
        card_tiles(tiles),
        card_exponents(exponents),
        view{type, rows, cols, card_tiles.data(), card_exponents.data()} {}
  PackedMatrix packed;
  Bytes tiles;
  std::vector<std::int32_t> exponents;
  bool ok;
  Input<std::byte> card_tiles;
  Input<std::int32_t> card_exponents;
  CardMatrix view;
};

// Quantised rows in the card's memory.
struct CardRows {
  explicit CardRows(const Activations& x)
      : values(x.values),
        scales(x.scales),
        sums(x.sums),
        block_sums(x.block_sums),
        exponents(x.exponents) {
    view = {x.view.rows,
            x.view.cols,
            const_cast<std::int8_t*>(values.data()),
            const_cast<float*>(scales.data()),
            const_cast<float*>(sums.data()),
            const_cast<std::int32_t*>(block_sums.data()),
            const_cast<std::int32_t*>(exponents.data())};
  }
  Input<std::int8_t> values;
  Input<float> scales;
  Input<float> sums;
  Input<std::int32_t> block_sums;
  Input<std::int32_t> exponents;
  QuantizedRows view;
};

struct Space {
  explicit Space(std::uint32_t rows)
      : sums(std::vector<std::int32_t>(product_sums(rows), 0)),
        tickets(std::vector<std::uint32_t>(product_tickets(rows), 0)),
        view{sums.data(), tickets.data()} {}
  bool is_zero() const {
    return sums.values() == std::vector<std::int32_t>(sums.size(), 0) &&
           tickets.values() == std::vector<std::uint32_t>(tickets.size(), 0);
  }
  Memory<std::int32_t> sums;
  Memory<std::uint32_t> tickets;
  ProductSpace view;
};

struct Shape {
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint32_t tokens;
  std::uint32_t blocks;
};

// One row and one block; tails of rows, of units of columns and of a record's batches; blocks that
// have parts of one tile, several tiles and more of them than fit; two and more shares of the
// columns; every kernel's number of tokens, and more than a launch takes.
constexpr Shape kShapes[] = {{1, 32, 1, 1},     {33, 64, 2, 2},    {31, 288, 3, 1},
                             {70, 544, 4, 2},   {100, 2048, 1, 3}, {40, 4384, 5, 3},
                             {65, 4384, 2, 5},  {7, 320, 11, 0},   {32, 256, 8, 0},
                             {33, 16672, 1, 7}, {1030, 32, 1, 1},  {290, 32, 6, 1}};

void compare(const Both& w, const Activations& x, std::uint32_t blocks, std::uint64_t seed) {
  const std::uint32_t rows = w.view.rows;
  const std::size_t stride = rows + 3;
  std::vector<float> expected(stride * x.view.rows, -7.0F);
  scalar().matmul(w.packed, x.view, 0, w.packed.groups(), expected.data(), stride);
  const CardRows card(x);
  Space space(rows);
  card::set_seed(seed);
  Memory<float> out(std::vector<float>(expected.size(), -7.0F));
  const auto done = product(w.view, card.view, out.data(), stride, space.view, nullptr, blocks);
  ASSERT_TRUE(done.ok()) << done.error().message;
  ASSERT_TRUE(same_bits(out.values(), expected))
      << "type " << static_cast<int>(w.view.type) << " rows " << rows << " cols " << w.view.cols
      << " tokens " << x.view.rows << " seed " << seed;
  ASSERT_TRUE(space.is_zero());
}

class CudaProduct : public testing::TestWithParam<WeightType> {};

TEST_P(CudaProduct, EqualsTheScalarTable) {
  const WeightType type = GetParam();
  for (const Shape& shape : kShapes) {
    const std::uint32_t cols = columns_of(type, shape.cols);
    const bool extreme = shape.tokens == 5 || shape.tokens == 2;
    Generator random(shape.rows + shape.cols);
    const Both w(type, shape.rows, cols,
                 weight_blocks(random, type, shape.rows, cols, extreme ? 15'000.0F : 0.01F));
    ASSERT_TRUE(w.ok);
    const auto x = activations(random, shape.tokens, cols, extreme);
    compare(w, *x, shape.blocks, shape.cols);
  }
}

// The largest sums there can be: every weight and activation at its extreme and of one sign.
TEST_P(CudaProduct, TheLargestSumsAreThoseOfTheScalarTable) {
  const WeightType type = GetParam();
  const std::uint32_t cols = 2304;
  for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
    Generator random(7);
    Bytes bytes = weight_blocks(random, type, 1, cols);
    const std::size_t block_bytes = PackedMatrix::file_block_bytes(type);
    for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
      if (is_floating(type)) {
        for (std::size_t i = 0; i < block_bytes; i += block_bytes / kBlock) {
          put_float(type, fill < 0x80 ? 65504.0F : -65504.0F, &bytes[at + i]);
        }
        continue;
      }
      std::memset(bytes.data() + at, fill, block_bytes);
      for (const std::size_t offset : half_offsets(type)) {
        put_scale(type, 65504.0F, bytes.data() + at + offset);
      }
    }
    const Both w(type, 1, cols, bytes);
    Activations x(1, cols);
    const std::vector<float> row(cols, fill == 0x7F ? -1.9999999F : 1.0F);
    ASSERT_TRUE(scalar().quantize(row.data(), x.view, 0));
    compare(w, x, 0, 1);
  }
}

// The kernels for many tokens, over tails of rows, of columns and of tokens: one token more than
// the others take, launches that are full, and tokens in a tile of their own.
TEST_P(CudaProduct, ManyRowsEqualTheScalarTable) {
  const WeightType type = GetParam();
  for (const Shape& shape :
       {Shape{33, 288, 17, 0}, Shape{70, 1312, 32, 0}, Shape{20, 96, 41, 0}, Shape{1, 32, 33, 0},
        Shape{70, 800, 64, 0}, Shape{140, 544, 67, 0}, Shape{5, 32, 129, 0}}) {
    const std::uint32_t cols = columns_of(type, shape.cols);
    const bool extreme = shape.tokens == 17 || shape.tokens == 41;
    Generator random(shape.rows + shape.cols);
    const Both w(type, shape.rows, cols,
                 weight_blocks(random, type, shape.rows, cols, extreme ? 15'000.0F : 0.01F));
    const auto x = activations(random, shape.tokens, cols, extreme);
    compare(w, *x, shape.tokens % 2 == 0 ? 0 : 256, shape.cols);
  }
}

// Products of a block from far below one grid step to far above 2^22, the bound of the fast
// rounding: with scales that are powers of two, many lie halfway between two integers.
TEST_P(CudaProduct, ManyRowsRoundAsTheScalarTableAroundTheBound) {
  const WeightType type = GetParam();
  if (is_floating(type)) return;                                 // no tensor cores
  constexpr int exponents[] = {0, -1, -2, -3, -4, -6, -9, -12};  // of eight blocks
  const std::uint32_t cols = std::size(exponents) * 8 * kBlock;
  Generator random(8);
  Bytes bytes = weight_blocks(random, type, 3, cols);
  const std::size_t block_bytes = PackedMatrix::file_block_bytes(type);
  // Rows 1 and 2 have the extreme quants of a type, whose products are as large as their bound.
  const std::size_t row_bytes = bytes.size() / 3;
  std::memset(&bytes[row_bytes], 0, row_bytes);
  std::memset(&bytes[2 * row_bytes], type == WeightType::kQ8_0 ? 0x80 : 0xFF, row_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    for (const std::size_t offset : half_offsets(type)) {
      put_scale(type, random() % 2 == 0 ? 1.0F : -0.5F, bytes.data() + at + offset);
    }
  }
  const Both w(type, 3, cols, bytes);
  ASSERT_TRUE(w.ok);
  for (const std::uint32_t tokens : {9U, 17U, 33U}) {
    Activations x(tokens, cols);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      std::vector<float> row(cols);
      for (std::uint32_t i = 0; i < cols; ++i) {
        const int any = static_cast<int>(random() % 255) - 127;
        const int value = t % 4 == 0 ? 127 : t % 4 == 1 ? -127 : i % kBlock == 0 ? 127 : any;
        row[i] = std::ldexp(static_cast<float>(value), exponents[i / kBlock / 8]);
      }
      ASSERT_TRUE(scalar().quantize(row.data(), x.view, t));
    }
    compare(w, x, 0, tokens);
  }
}

// Any order of threads and blocks, and any number of blocks.
TEST_P(CudaProduct, SeedsAndBlocksChangeNoBit) {
  const WeightType type = GetParam();
  const std::uint32_t cols = columns_of(type, 2336);
  Generator random(3);
  const Both w(type, 75, cols, weight_blocks(random, type, 75, cols));
  const auto x = activations(random, 2, cols);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    compare(w, *x, static_cast<std::uint32_t>(3 * seed + 1), seed);
  }
}

TEST_P(CudaProduct, RowsComeBackAsTheScalarTableHasThem) {
  const WeightType type = GetParam();
  Generator random(5);
  for (const std::uint32_t least : {32U, 96U, 4608U}) {
    const std::uint32_t cols = columns_of(type, least);
    const std::vector<std::uint32_t> rows = {39, 0, 31, 32, 0};
    const Both w(type, 40, cols, weight_blocks(random, type, 40, cols, 3.0F));
    const Input<std::uint32_t> names(rows);
    Memory<float> out(rows.size() * cols);
    ASSERT_TRUE(dequantize_rows(w.view, names.data(), 5, out.data(), nullptr).ok());
    std::vector<float> expected(out.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      scalar().dequantize_row(w.packed, rows[i], &expected[i * cols]);
    }
    ASSERT_TRUE(same_bits(out.values(), expected)) << cols;
  }
}

TEST_P(CudaProduct, PackingHasTheFilesSizeAndTheScalarTablesExponents) {
  const WeightType type = GetParam();
  Generator random(6);
  const std::uint32_t cols = columns_of(type, 96);
  const Bytes file = weight_blocks(random, type, 45, cols);
  const Both w(type, 45, cols, file);
  EXPECT_EQ(w.tiles.size() * 45, file.size() * 64);
  EXPECT_TRUE(std::equal(w.exponents.begin(), w.exponents.begin() + 45, w.packed.row_exponents()));
  EXPECT_EQ(w.exponents[63], kWeightExponentMin);
  // In parts of whole tiles, as a file is streamed.
  const std::size_t row_bytes = file.size() / 45;
  Bytes parts(w.tiles.size());
  std::vector<std::int32_t> exponents(64);
  const auto part = [&](std::uint32_t first, std::uint32_t rows) {
    const TileShape shape = tile_shape(type, rows, cols);
    const std::size_t at = first / kTileRows * shape.records * shape.tile_bytes;
    return pack_tiles(type, rows, cols, ByteSpan(file).subspan(first * row_bytes, rows * row_bytes),
                      MutableByteSpan(parts).subspan(at, shape.bytes()),
                      std::span(exponents).subspan(first, shape.tiles * kTileRows));
  };
  ASSERT_TRUE(part(0, 32).ok());
  ASSERT_TRUE(part(32, 13).ok());
  EXPECT_EQ(parts, w.tiles);
  EXPECT_EQ(exponents, w.exponents);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaProduct,
                         testing::ValuesIn(std::begin(kAllTypes),
                                           std::begin(kAllTypes) + kTileTypes));

// Matrices of one type share a launch, also with those of a type that forms a pair with theirs;
// more than a launch takes; with one row, with more than a launch takes and with those of either
// kernel of the tensor cores.
TEST(CudaProductLists, EqualTheProductsOneByOne) {
  const std::vector<std::pair<WeightType, std::uint32_t>> matrices = {
      {WeightType::kQ4_K, 70}, {WeightType::kQ4_K, 33}, {WeightType::kQ4_K, 1},
      {WeightType::kQ4_K, 64}, {WeightType::kQ6_K, 40}, {WeightType::kF16, 31},
      {WeightType::kQ5_K, 40}, {WeightType::kQ6_K, 65}, {WeightType::kQ6_K, 2}};
  const std::uint32_t cols = 1280;
  Generator random(4);
  std::deque<Both> all;
  for (const auto& [type, rows] : matrices) {
    all.emplace_back(type, rows, cols, weight_blocks(random, type, rows, cols));
  }
  for (const std::uint32_t tokens : {1U, 2U, 10U, 17U, 40U, 70U}) {
    const auto x = activations(random, tokens, cols, false);
    const CardRows card(*x);
    Space space(176);
    std::deque<Memory<float>> outs;
    std::vector<ProductOutput> list;
    for (const Both& w : all) {
      outs.emplace_back(std::vector<float>(std::size_t{tokens} * (w.view.rows + 1), -7.0F));
      list.push_back({w.view, outs.back().data(), w.view.rows + 1});
    }
    card::set_seed(tokens);
    ASSERT_TRUE(products(list, card.view, space.view, nullptr, tokens == 40 ? 64 : 4).ok());
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<float> expected(outs[i].size(), -7.0F);
      scalar().matmul(all[i].packed, x->view, 0, all[i].packed.groups(), expected.data(),
                      list[i].out_stride);
      ASSERT_TRUE(same_bits(outs[i].values(), expected)) << i << " tokens " << tokens;
    }
    ASSERT_TRUE(space.is_zero());
  }
}

// Sums that wrap, as those of a failed row may, still leave the memory zero.
TEST(CudaProductLists, CountUnitsOfAnySum) {
  const std::uint32_t cols = 8192;
  Generator random(8);
  const Both w(WeightType::kQ8_0, 40, cols, weight_blocks(random, WeightType::kQ8_0, 40, cols));
  const auto x = activations(random, 1, cols, false);
  for (float& scale : x->scales) scale = 3e38F;
  const CardRows card(*x);
  Space space(40);
  Memory<float> out(40);
  ASSERT_TRUE(product(w.view, card.view, out.data(), 40, space.view, nullptr, 7).ok());
  EXPECT_TRUE(space.is_zero());
}

// So many columns that a share takes several steps of them, and the last share fewer; shares of
// several tiles of rows and of tokens.
TEST(CudaProductShares, OfSeveralStepsAddUp) {
  for (const Shape& shape : {Shape{1, 257 * 1024 + 32, 17, 0}, Shape{1, 258 * 256 + 32, 33, 0},
                             Shape{1030, 288, 65, 0}}) {
    Generator random(shape.tokens);
    const WeightType type = WeightType::kQ8_0;
    const Both w(type, shape.rows, shape.cols, weight_blocks(random, type, shape.rows, shape.cols));
    compare(w, *activations(random, shape.tokens, shape.cols, false), 256, 1);
  }
}

TEST(CudaTiles, RefuseWhatTheyCannotMean) {
  Generator random(9);
  Bytes file = weight_blocks(random, WeightType::kQ4_1, 4, 64);
  const TileShape shape = tile_shape(WeightType::kQ4_1, 4, 64);
  Bytes tiles(shape.bytes());
  std::vector<std::int32_t> exponents(kTileRows);
  EXPECT_FALSE(pack_tiles(WeightType::kQ4_1, 4, 48, file, tiles, exponents).ok());
  EXPECT_FALSE(pack_tiles(WeightType::kQ4_1, 5, 64, file, tiles, exponents).ok());
  EXPECT_FALSE(
      pack_tiles(WeightType::kQ4_1, 4, 64, file, MutableByteSpan(tiles).first(8), exponents).ok());
  EXPECT_FALSE(
      pack_tiles(WeightType::kQ4_1, 4, 64, file, tiles, std::span(exponents).first(4)).ok());
  EXPECT_TRUE(pack_tiles(WeightType::kQ4_1, 4, 64, file, tiles, exponents).ok());
  for (const WeightType type : kAllTypes) {
    if (has_tiles(type)) continue;
    const Bytes other = weight_blocks(random, type, 4, kSuperBlock);
    Bytes room(tile_shape(type, 4, kSuperBlock).bytes());
    EXPECT_FALSE(pack_tiles(type, 4, kSuperBlock, other, room, exponents).ok())
        << static_cast<int>(type);
  }
  const std::uint16_t infinity = 0xFC00;
  std::memcpy(file.data() + (2 * 2 + 1) * 20 + 2, &infinity, 2);
  const auto refused = pack_tiles(WeightType::kQ4_1, 4, 64, file, tiles, exponents);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("block 1 of row 2"), std::string::npos);
}

TEST(CudaTiles, EveryByteOfATileHasOnePlace) {
  for (const WeightType type : kAllTypes) {
    if (!has_tiles(type)) continue;
    const std::uint32_t bytes = layout_of(type).file_bytes;
    std::vector<int> taken(std::size_t{kTileRows} * bytes, 0);
    for (std::uint32_t lane = 0; lane < kTileRows; ++lane) {
      for (std::uint32_t w = 0; w * 4 < bytes; ++w) {
        for (std::uint32_t i = 0; i < std::min(4U, bytes - w * 4); ++i) {
          ++taken.at(word_offset(bytes, w, lane) + i);
        }
      }
    }
    EXPECT_EQ(taken, std::vector<int>(taken.size(), 1)) << static_cast<int>(type);
  }
}

TEST(CudaTiles, ProductsRefuseShapesThatDoNotMeet) {
  const CardMatrix w{WeightType::kQ4_K, 32, 256, nullptr, nullptr};
  EXPECT_FALSE(product(w, {1, 512}, nullptr, 32, {}, nullptr).ok());
  EXPECT_FALSE(product({WeightType::kQ4_K, 32, 96}, {1, 96}, nullptr, 32, {}, nullptr).ok());
  EXPECT_FALSE(dequantize_rows({WeightType::kF32, 0, 32}, nullptr, 1, nullptr, nullptr).ok());
  EXPECT_TRUE(product(w, {0, 256}, nullptr, 32, {}, nullptr).ok());
}

}  // namespace
}  // namespace hearth::kernels::cuda
