// Chooses the kernel of a product, and unpacks rows of a matrix to numbers.
#include <algorithm>
#include <string>

#include "kernels/cuda/batch.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/wide.cuh"

namespace hearth::kernels::cuda {
namespace {

constexpr std::uint32_t kTokensMost = 8;
// Blocks that a launch should have before its blocks take several tiles: some for every
// multiprocessor of the largest cards. This number is an estimate; it was not measured on a GPU.
constexpr std::uint32_t kBlocksWanted = 1024;
constexpr std::uint32_t kTilesMost = 8;

// Which rows of x a launch may take at once.
std::uint32_t tokens_of_launch(WeightType type, std::uint32_t tokens) {
  if (tokens <= kTokensMost || layout_of(type).form == BlockForm::kFloat) return kTokensMost;
  return tokens;
}

const char* run_type(WeightType type, const ProductArgs& args, Grid grid, Stream stream) {
  const WeightLayout layout = layout_of(type);
  if (layout.form == BlockForm::kFloat) return run_floating(type, args, grid, stream);
  if (args.tokens > kBatchTokens) {
    return layout.blocks == 1 ? run_wide_small(type, args, stream)
                              : run_wide_super(type, args, stream);
  }
  if (args.tokens > kTokensMost) {
    return layout.blocks == 1 ? run_batch_small(type, args, stream)
                              : run_batch_super(type, args, stream);
  }
  if (layout.blocks == 1) return run_small(type, args, grid, stream);
  if (layout.form == BlockForm::kOneScale) return run_super(type, args, grid, stream);
  return run_super_two(type, args, grid, stream);
}

std::uint32_t choose_tiles(std::uint32_t tiles, std::uint32_t shares) {
  const std::uint64_t all = std::uint64_t{tiles} * shares;
  return std::clamp(static_cast<std::uint32_t>(all / kBlocksWanted), 1U, kTilesMost);
}

constexpr unsigned kRowThreads = 128;

// One thread a block of 32 columns.
template <WeightType kType>
HEARTH_KERNEL(kRowThreads, 1)
dequantize(Global<const std::byte> tiles, std::size_t tile_bytes, std::uint32_t records,
           Global<const std::uint32_t> rows, Global<float> out) {
  using R = Record<kType>;
  const std::uint32_t row = rows.get(block_index_x());
  const std::uint32_t blocks = records * R::kLayout.blocks;
  const std::uint32_t block = block_index_y() * kRowThreads + thread_index();
  if (block >= blocks) return;
  const std::size_t tile = std::size_t{row / kTileRows} * records + block / R::kLayout.blocks;
  R record;
  load_record<kType, false>(tiles.at(tile * tile_bytes), row % kTileRows, record);
  const Global<float> to = out.at((std::size_t{block_index_x()} * blocks + block) * kBlock);
  HEARTH_UNROLL
  for (std::uint32_t b = 0; b < R::kLayout.blocks; ++b) {
    if (b != block % R::kLayout.blocks) continue;
    std::uint32_t quads[8];
    BlockScales scales;
    if constexpr (!R::kFloating) {
      quads_of(record, b, quads);
      scales = scales_of<kType>(record, b);
    }
    HEARTH_UNROLL
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      if constexpr (R::kFloating) {
        to.put(k, weight_of(record, k));
        continue;
      }
      const std::uint32_t stored = quads[k / 4] >> (8 * (k % 4)) & 255U;
      const std::int32_t quant = R::kSigned ? static_cast<std::int8_t>(stored)
                                            : static_cast<std::int32_t>(stored) - R::kZero;
      float value = scales.d * static_cast<float>(scales.s[k / 16] * quant);
      if constexpr (R::kLayout.minimum) {
        value += R::kTwoScales ? scales.m * static_cast<float>(scales.t[k / 16]) : scales.m;
      }
      to.put(k, value);
    }
  }
}

template <WeightType kType>
const char* run_dequantize(const CardMatrix& w, const std::uint32_t* rows, std::uint32_t count,
                           float* out, Stream stream) {
  const TileShape shape = tile_shape(w.type, w.rows, w.cols);
  const std::uint32_t blocks = w.cols / kBlock;
  return launch(dequantize<kType>, {count, (blocks + kRowThreads - 1) / kRowThreads}, kRowThreads,
                0, stream, Global(w.tiles), shape.tile_bytes, shape.records, Global(rows),
                Global(out));
}

// Calls `run.operator()<type>()`.
template <std::uint32_t kFirst = 0, typename Run>
const char* for_type(WeightType type, Run run) {
  if constexpr (kFirst + 1 < kTileTypes) {
    if (type != static_cast<WeightType>(kFirst)) return for_type<kFirst + 1>(type, run);
  }
  return run.template operator()<static_cast<WeightType>(kFirst)>();
}

Status check_matrix(const CardMatrix& w) {
  REQUIRE(has_tiles(w.type), "no GPU computes this type of weights");
  REQUIRE(w.rows > 0 && w.cols > 0 && w.cols % layout_of(w.type).columns() == 0,
          "a weight matrix of " + std::to_string(w.rows) + " x " + std::to_string(w.cols) +
              ", a shape that its type does not allow");
  return ok_status();
}

}  // namespace

std::size_t product_sums(std::uint32_t rows) {
  // The tensor cores' products share no columns where the rows alone make kBlocksOfBatch blocks.
  constexpr std::uint32_t wide = kWideTiles * kTileRows;
  const std::size_t wide_blocks = std::min((rows + wide - 1) / wide, kBlocksOfBatch);
  return std::max(std::size_t{product_tickets(rows)} * kTileRows * kTokensMost,
                  wide_blocks * wide * kWideTokens);
}

std::size_t product_tickets(std::uint32_t rows) { return (rows + kTileRows - 1) / kTileRows; }

Status product(const CardMatrix& w, const QuantizedRows& x, float* out, std::size_t out_stride,
               const ProductSpace& space, Stream stream, std::uint32_t tiles_of_block) {
  TRY_VOID(check_matrix(w));
  REQUIRE(x.cols == w.cols, "rows of " + std::to_string(x.cols) + " values for a matrix of " +
                                std::to_string(w.cols) + " columns");
  const TileShape shape = tile_shape(w.type, w.rows, w.cols);
  const std::uint32_t blocks = w.cols / kBlock;
  const std::uint32_t shares = (blocks + kShareBlocks - 1) / kShareBlocks;
  const std::uint32_t tiles =
      tiles_of_block != 0 ? tiles_of_block : choose_tiles(shape.tiles, shares);
  const Grid grid{(shape.tiles + tiles - 1) / tiles, shares};
  for (std::uint32_t t = 0; t < x.rows;) {
    const std::uint32_t tokens = std::min(tokens_of_launch(w.type, x.rows - t), x.rows - t);
    const std::size_t at = std::size_t{t} * blocks;
    const ProductArgs args{Global(w.tiles),
                           Global(w.exponents),
                           shape.tile_bytes,
                           shape.tiles,
                           tiles,
                           w.rows,
                           blocks,
                           shape.records,
                           tokens,
                           Global<const std::int8_t>(x.values + at * kBlock),
                           Global<const float>(x.scales + at),
                           Global<const float>(x.sums + at),
                           Global<const std::int32_t>(x.block_sums + at),
                           Global<const std::int32_t>(x.exponents + t),
                           Global(out + t * out_stride),
                           out_stride,
                           Global(space.sums),
                           Global(space.tickets),
                           shares,
                           kShareBlocks};
    TRY_VOID(launched("product_tiles", run_type(w.type, args, grid, stream)));
    t += tokens;
  }
  return ok_status();
}

Status dequantize_rows(const CardMatrix& w, const std::uint32_t* rows, std::uint32_t count,
                       float* out, Stream stream) {
  TRY_VOID(check_matrix(w));
  if (count == 0) return ok_status();
  return launched("dequantize", for_type(w.type, [&]<WeightType kType>() {
                    return run_dequantize<kType>(w, rows, count, out, stream);
                  }));
}

}  // namespace hearth::kernels::cuda
