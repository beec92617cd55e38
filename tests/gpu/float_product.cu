// All but the epilogue is the product's own (kernels/cuda/product.cuh) or float_wide.cuh's,
// function by function; what walks over blocks is theirs again, with float sums.
#include <algorithm>

#include "tests/gpu/float_product.h"
#include "tests/gpu/float_wide.cuh"

namespace hearth::gpu {
namespace {

// grid_steps() without the grid: two or three instructions an output.
template <WeightType kType>
HEARTH_DEVICE float add_floating(float sum, const std::int32_t (&dots)[2], const BlockScales& row,
                                 float scale, std::uint32_t extra) {
  using R = Record<kType>;
  const float unit = row.d * scale;
  if constexpr (R::kTwoScales) {
    const std::int32_t sums[2] = {half_sum(extra, 0), half_sum(extra, 1)};
    const std::int32_t dot =
        row.s[0] * (dots[0] - R::kZero * sums[0]) + row.s[1] * (dots[1] - R::kZero * sums[1]);
    return std::fma(unit, static_cast<float>(dot), sum);
  } else if constexpr (R::kLayout.minimum) {
    sum = std::fma(row.m, std::bit_cast<float>(extra), sum);
    return std::fma(unit, static_cast<float>(dots[0]), sum);
  } else {
    const std::int32_t dot = dots[0] - R::kZero * static_cast<std::int32_t>(extra);
    return std::fma(unit, static_cast<float>(dot), sum);
  }
}

HEARTH_DEVICE void finish_float(const ProductArgs& args, std::uint32_t row, std::uint32_t token,
                                float sum) {
  const float row_factor = power_of_two(args.weight_exponents.get(row));
  const float token_factor = power_of_two(args.exponents.get(token) - kGridBits);
  args.out.put(token * args.out_stride + row, (sum * row_factor) * token_factor);
}

// What device.cuh refuses, since the order of such additions shows in the sum.
HEARTH_DEVICE float* float_sums(const ProductArgs& args) {
  return reinterpret_cast<float*>(args.shared_sums.raw());
}

// staged_steps() for the one row.
template <WeightType kType>
HEARTH_DEVICE float add_block_to(const ProductShared<1>& shared, std::uint32_t at,
                                 const std::uint32_t (&quads)[8], const BlockScales& row,
                                 float sum) {
  using R = Record<kType>;
  const Words4 halves[2] = {shared.values.get(2 * at), shared.values.get(2 * at + 1)};
  std::int32_t dots[2] = {0, 0};
  HEARTH_UNROLL
  for (unsigned g = 0; g < 8; ++g) {
    const std::uint32_t values = halves[g / 4].at[g % 4];
    std::int32_t& dot = dots[R::kTwoScales ? g / 4 : 0];
    dot = R::kSigned ? dot_signed(quads[g], values, dot) : dot_unsigned(quads[g], values, dot);
  }
  constexpr bool has_extra = R::kTwoScales || R::kLayout.minimum || R::kZero != 0;
  return add_floating<kType>(sum, dots, row, shared.scales.get(at),
                             has_extra ? shared.extras.get(at) : 0);
}

// reduce() for the one row.
HEARTH_DEVICE void reduce_floats(const ProductArgs& args, std::uint32_t tile,
                                 ProductShared<1>& shared) {
  const unsigned lane = thread_index() % 32;
  const std::uint32_t row = tile * kTileRows + lane;
  const bool mine = thread_index() < 32 && row < args.rows;
  const std::size_t place = std::size_t{tile} * 8 * kTileRows + lane;
  if (mine) {
    float sum = 0.0F;
    for (unsigned w = 0; w < kProductWarps; ++w) {
      sum += std::bit_cast<float>(shared.partial.get(w * 32 + lane));
    }
    if (args.shares == 1) {
      finish_float(args, row, 0, sum);
    } else {
      atomicAdd(float_sums(args) + place, sum);
    }
  }
  if (args.shares == 1 || !last_of_shares(args, tile, shared.last)) return;
  if (mine) finish_float(args, row, 0, atomicExch(float_sums(args) + place, 0.0F));
}

// One row of x: product_tiles<kType, 1>.
template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
float_tiles(ProductArgs args) {
  using B = Batch<kType>;
  constexpr std::uint32_t blocks_of_record = Record<kType>::kLayout.blocks;
  ProductShared<1>& shared = shared_memory<ProductShared<1>>();
  const unsigned lane = thread_index() % 32;
  const std::uint32_t first = block_index_y() * kShareBlocks;
  const std::uint32_t left = args.blocks - first;
  const std::uint32_t count = left < kShareBlocks ? left : kShareBlocks;
  const std::uint32_t unit = thread_index() / 32 * kUnitBlocks;
  const std::uint32_t unit_left = unit < count ? count - unit : 0;
  const std::uint32_t records =
      (unit_left < kUnitBlocks ? unit_left : kUnitBlocks) / blocks_of_record;
  const std::uint32_t first_tile = block_index_x() * args.tiles_of_block;
  const std::uint32_t tiles_left = args.row_tiles - first_tile;
  const std::uint32_t end =
      first_tile + (tiles_left < args.tiles_of_block ? tiles_left : args.tiles_of_block);
  const auto unit_of = [&](std::uint32_t tile) {
    const std::size_t record = (first + unit) / blocks_of_record;
    return args.tiles.at((std::size_t{tile} * args.records + record) * args.tile_bytes);
  };
  B batch;
  load_batch(unit_of(first_tile), args.tile_bytes, records, 0, batch);
  stage<kType, 1>(args, first, count, shared);
  copy_wait<0>();
  sync_threads();
  for (std::uint32_t tile = first_tile; tile < end; ++tile) {
    const float row_factor = power_of_two(-args.weight_exponents.get(tile * kTileRows + lane));
    float sum = 0.0F;
    for (std::uint32_t index = 0; index < B::kBatches; ++index) {
      HEARTH_UNROLL
      for (std::uint32_t i = 0; i < B::kRecords; ++i) {
        const std::uint32_t record = index * B::kRecords + i;
        if (record >= records) continue;
        HEARTH_UNROLL
        for (std::uint32_t b = 0; b < blocks_of_record; ++b) {
          std::uint32_t quads[8];
          quads_of(batch.records[i], b, quads);
          const BlockScales row = scaled(scales_of<kType>(batch.records[i], b), row_factor);
          sum = add_block_to<kType>(shared, unit + record * blocks_of_record + b, quads, row, sum);
        }
      }
      if (index + 1 < B::kBatches) {
        load_batch(unit_of(tile), args.tile_bytes, records, index + 1, batch);
      } else if (tile + 1 < end) {
        load_batch(unit_of(tile + 1), args.tile_bytes, records, 0, batch);
      }
    }
    shared.partial.put(thread_index(), std::bit_cast<std::int32_t>(sum));
    sync_threads();
    reduce_floats(args, tile, shared);
    if (tile + 1 < end) sync_threads();
  }
}

using FloatSums = float[kWideRuns][4];

// add_wide_block().
template <WeightType kType>
HEARTH_DEVICE void add_float_block(const ProductArgs& args, const WideShared& shared,
                                   Global<const std::byte> tile, std::uint32_t first_row,
                                   std::uint32_t b, std::uint32_t staged, const BlockScales& mine,
                                   FloatSums& sums) {
  const unsigned g = thread_index() % 32 / 4;
  const unsigned c = thread_index() % 4;
  const std::uint32_t tokens = args.tokens - token_tile(args) * kWideTokens;
  std::uint32_t a[4];
  BlockScales rows[2];
  HEARTH_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    std::uint32_t quads[2];
    fragment_of<kType>(tile, first_row + 8 * i + g, b, c, quads);
    a[i] = quads[0];
    a[2 + i] = quads[1];
    rows[i] = scales_from<kType>(mine, 8 * i + g);
  }
  HEARTH_UNROLL
  for (unsigned n = 0; n < kWideRuns; ++n) {
    const std::uint32_t run = 8 * n;
    if (run >= tokens) continue;
    const std::uint32_t low_word = (2 * staged * kWideTokens + run + g) * 4 + c;
    const std::uint32_t right[2] = {shared.values.word(low_word),
                                    shared.values.word(low_word + 4 * kWideTokens)};
    std::int32_t low[4] = {};
    std::int32_t high[4] = {};
    multiply_block<kType>(a, right, low, high);
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t at = staged * kWideTokens + run + 2 * c + i % 2;
      const std::int32_t dots[2] = {low[i], high[i]};
      sums[n][i] = add_floating<kType>(sums[n][i], dots, rows[i / 2], shared.scales.get(at),
                                       shared.extras.get(at));
    }
  }
}

// hand_over().
HEARTH_DEVICE void hand_over_floats(const ProductArgs& args, const FloatSums& sums,
                                    WideShared& shared) {
  constexpr std::uint32_t rows = kWideTiles * kTileRows;
  const std::uint32_t first_row = thread_index() / 32 * 16 + thread_index() % 32 / 4;
  const std::size_t first_place = std::size_t{block_index_y()} * rows * kWideTokens;
  const auto place = [&](std::uint32_t row, std::uint32_t token) {
    return first_place + token * rows + row;
  };
  HEARTH_UNROLL
  for (unsigned n = 0; n < kWideRuns; ++n) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t in_block = first_row + 8 * (i / 2);
      const std::uint32_t row = block_index_y() * rows + in_block;
      const std::uint32_t in_tile = 8 * n + 2 * (thread_index() % 4) + i % 2;
      const std::uint32_t token = token_tile(args) * kWideTokens + in_tile;
      if (row >= args.rows || token >= args.tokens) continue;
      if (args.shares == 1) {
        finish_float(args, row, token, sums[n][i]);
      } else {
        atomicAdd(float_sums(args) + place(in_block, in_tile), sums[n][i]);
      }
    }
  }
  if (args.shares == 1 || !last_of_shares(args, block_index_y(), shared.words)) return;
  for (std::uint32_t i = thread_index(); i < rows * args.tokens; i += kProductThreads) {
    const std::uint32_t row = block_index_y() * rows + i % rows;
    if (row >= args.rows) continue;
    finish_float(args, row, i / rows,
                 atomicExch(float_sums(args) + place(i % rows, i / rows), 0.0F));
  }
}

// product_wide<kType>.
template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
float_wide(ProductArgs args) {
  constexpr std::uint32_t blocks = Record<kType>::kLayout.blocks;
  WideShared& shared = shared_memory<WideShared>();
  const unsigned lane = thread_index() % 32;
  const std::uint32_t group = thread_index() / 32;  // of 16 rows
  const std::uint32_t row_tile = block_index_y() * kWideTiles + group / 2;
  const std::uint32_t first_row = group % 2 * 16;
  const bool there = row_tile < args.row_tiles;
  const float row_factor =
      there ? power_of_two(-args.weight_exponents.get(row_tile * kTileRows + first_row + lane % 16))
            : 0.0F;
  FloatSums sums = {};
  Pending pending;
  const std::uint32_t share = args.shares == 1 ? 0 : block_index_x();
  const std::uint32_t begin = share * args.share_blocks;
  const std::uint32_t end = share_end(args, begin);
  begin_unit<kType>(args, begin, 0, shared, pending);
  end_unit(args, begin, 0, shared, pending);
  copy_wait<0>();
  sync_threads();
  std::uint32_t stage = 0;
  for (std::uint32_t unit = begin; unit < end; unit += kUnitBlocks) {
    const std::uint32_t next = unit + kUnitBlocks;
    const std::uint32_t count = end - unit < kUnitBlocks ? end - unit : kUnitBlocks;
    if (next < end) begin_unit<kType>(args, next, 1 - stage, shared, pending);
    for (std::uint32_t first = 0; there && first < count; first += blocks) {
      const std::size_t record = (unit + first) / blocks;
      const Global<const std::byte> tile =
          args.tiles.at((std::size_t{row_tile} * args.records + record) * args.tile_bytes);
      const auto scales = stage_scales<kType>(tile, first_row + lane % 16, shared);
      HEARTH_ROLL
      for (std::uint32_t b = 0; b < blocks; ++b) {
        const BlockScales mine = scaled(scales_of<kType>(scales, b), row_factor);
        add_float_block<kType>(args, shared, tile, first_row, b, stage * kUnitBlocks + first + b,
                               mine, sums);
      }
    }
    if (next < end) end_unit(args, next, 1 - stage, shared, pending);
    copy_wait<0>();
    sync_threads();
    stage = 1 - stage;
  }
  hand_over_floats(args, sums, shared);
}

// As product.cu reckons, for whole rows.
ProductArgs args_of(const CardMatrix& w, const QuantizedRows& x, float* out,
                    const ProductSpace& space) {
  const TileShape shape = tile_shape(w.type, w.rows, w.cols);
  const std::uint32_t blocks = w.cols / kBlock;
  const std::uint32_t shares = (blocks + kShareBlocks - 1) / kShareBlocks;
  return {Global(w.tiles),
          Global(w.exponents),
          shape.tile_bytes,
          shape.tiles,
          std::clamp(shape.tiles * shares / 1024, 1U, 8U),
          w.rows,
          blocks,
          shape.records,
          x.rows,
          Global<const std::int8_t>(x.values),
          Global<const float>(x.scales),
          Global<const float>(x.sums),
          Global<const std::int32_t>(x.block_sums),
          Global<const std::int32_t>(x.exponents),
          Global(out),
          w.rows,
          Global(space.sums),
          Global(space.tickets),
          shares,
          kShareBlocks};
}

template <WeightType kType>
const char* run_typed(ProductArgs args, Stream stream) {
  if (args.tokens == 1) {
    const unsigned tiles = (args.row_tiles + args.tiles_of_block - 1) / args.tiles_of_block;
    return launch(float_tiles<kType>, {tiles, args.shares}, kProductThreads,
                  sizeof(ProductShared<1>), stream, args);
  }
  const std::uint32_t token_tiles = (args.tokens + kWideTokens - 1) / kWideTokens;
  const std::uint32_t rows = (args.row_tiles + kWideTiles - 1) / kWideTiles;
  args.shares = 1;
  args.share_blocks = args.blocks;
  if (token_tiles == 1) args = in_shares(args, rows, kUnitBlocks);
  return launch(float_wide<kType>, {std::max(token_tiles, args.shares), rows}, kProductThreads,
                sizeof(WideShared), stream, args);
}

}  // namespace

bool has_float_product(WeightType type, std::uint32_t tokens) {
  return (tokens == 1 || tokens > kBatchTokens) &&
         (type == WeightType::kQ8_0 || type == WeightType::kQ4_0 || type == WeightType::kQ4_K ||
          type == WeightType::kQ6_K);
}

const char* run_float_product(const CardMatrix& w, const QuantizedRows& x, float* out,
                              const ProductSpace& space, Stream stream) {
  const ProductArgs args = args_of(w, x, out, space);
  switch (w.type) {
    case WeightType::kQ8_0: return run_typed<WeightType::kQ8_0>(args, stream);
    case WeightType::kQ4_0: return run_typed<WeightType::kQ4_0>(args, stream);
    case WeightType::kQ4_K: return run_typed<WeightType::kQ4_K>(args, stream);
    case WeightType::kQ6_K: return run_typed<WeightType::kQ6_K>(args, stream);
    default: return "no float kernel for this type of weights";
  }
}

}  // namespace hearth::gpu
