// The product for more rows of x than 32, as a prompt has them, on the integer tensor cores. A
// block of 8 warps takes four tiles of 32 rows and 64 tokens, two warps a tile, and walks the
// columns in units of 256. All token tiles of the same rows run side by side, so that their weights
// come from the second-level cache.
#pragma once

#include "kernels/cuda/batch.cuh"

namespace hearth::kernels::cuda {

inline constexpr std::uint32_t kWideTokens = 64;
inline constexpr std::uint32_t kWideSides = kWideTokens / kSideTokens;
inline constexpr std::uint32_t kWideTiles = kProductWarps / kWideSides;
static_assert(kUnitBlocks * 2 * kWideTokens == kStageValues);
static_assert(kUnitBlocks == kWideSides * kScaledBlocks);

// Tiles of tokens lie side by side in the grid, those of one share of the columns after another.
HEARTH_DEVICE std::uint32_t share_of(const ProductArgs& args) {
  return args.shares == 1 ? 0 : block_index_x() / args.token_tiles;
}
HEARTH_DEVICE std::uint32_t token_tile(const ProductArgs& args) {
  return block_index_x() - share_of(args) * args.token_tiles;
}

// Outputs of a tile that all shares have added to; the sums become zero. Eight exchanges of a
// thread are on their way at once.
HEARTH_DEVICE void finish_tile(const ProductArgs& args, const ProductMatrix& matrix,
                               std::uint32_t first_row, std::uint32_t first_token,
                               std::size_t first_place) {
  constexpr std::uint32_t rows = kWideTiles * kTileRows;
  constexpr unsigned at_once = 8;
  const auto there = [&](std::uint32_t i) {
    return first_row + i % rows < matrix.rows && first_token + i / rows < args.tokens;
  };
  HEARTH_ROLL
  for (std::uint32_t from = reread_thread_index(); from < rows * kWideTokens;
       from += at_once * kProductThreads) {
    std::int32_t sums[at_once] = {};
    HEARTH_UNROLL
    for (unsigned k = 0; k < at_once; ++k) {
      const std::uint32_t i = from + k * kProductThreads;
      if (there(i)) sums[k] = atomic_exchange(args.shared_sums, first_place + i, 0);
    }
    HEARTH_UNROLL
    for (unsigned k = 0; k < at_once; ++k) {
      const std::uint32_t i = from + k * kProductThreads;
      if (there(i)) finish(args, matrix, first_row + i % rows, first_token + i / rows, sums[k]);
    }
  }
}

// From a lane's sums to outputs, or to the sums of all shares.
template <typename Words>
HEARTH_DEVICE void hand_over_wide(const ProductArgs& args, const ProductMatrix& matrix,
                                  const SideSums& sums, Words& word) {
  constexpr std::uint32_t rows = kWideTiles * kTileRows;
  const std::uint32_t thread = reread_thread_index();
  const std::uint32_t warp = thread / 32;
  const std::uint32_t first_row = warp / kWideSides * kTileRows + thread % 32 / 4;
  const std::uint32_t group_row = (block_index_y() - matrix.first_group) * rows;
  const std::uint32_t tile = block_index_y() * args.token_tiles + token_tile(args);
  const std::uint32_t tile_token = token_tile(args) * kWideTokens;
  const std::size_t first_place = std::size_t{tile} * rows * kWideTokens;
  HEARTH_UNROLL
  for (unsigned j = 0; j < 2 * (kSideTokens / 8); ++j) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned half = j / (kSideTokens / 8);
      const unsigned n = j % (kSideTokens / 8);
      const std::uint32_t in_block = first_row + 16 * half + 8 * (i / 2);
      const std::uint32_t in_tile =
          warp % kWideSides * kSideTokens + token_of(n, 2 * (thread % 4) + i % 2);
      const std::uint32_t row = group_row + in_block;
      const std::uint32_t token = tile_token + in_tile;
      if (row >= matrix.rows || token >= args.tokens) continue;
      const auto sum = static_cast<std::int32_t>(sums.at[half][n][i]);
      if (args.shares == 1) {
        finish(args, matrix, row, token, sum);
      } else {
        atomic_add(args.shared_sums, first_place + in_tile * rows + in_block, sum);
      }
    }
  }
  if (args.shares == 1 || !last_of_shares(args, tile, word)) return;
  finish_tile(args, matrix, group_row, tile_token, first_place);
}

template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
product_wide(ProductArgs args) {
  wait_for_previous_kernel();
  TensorShared<kType>& shared = shared_memory<TensorShared<kType>>();
  const ProductMatrix& matrix = matrix_of(args, block_index_y());
  const auto row_tile = [&] {
    return (block_index_y() - matrix.first_group) * kWideTiles +
           reread_thread_index() / 32 / kWideSides;
  };
  const auto side = [] { return reread_thread_index() / 32 % kWideSides; };
  const std::uint32_t token = token_tile(args) * kWideTokens;
  const std::uint32_t begin = share_of(args) * args.share_blocks;
  const std::uint32_t end = share_end(args, begin);
  const WarpRows rows = warp_rows(args, matrix, row_tile(), end);
  BlockWords<kType> words;
  ScaleWords<kType> scales;
  load_block<kType>(rows, begin, words);
  load_scales<kType>(matrix, row_tile(), rows, begin + side() * kScaledBlocks, scales);
  Stage stage{0, begin, end, token};
  begin_stage<kType, kWideTokens>(args, stage, shared);
  end_stage<kType, kWideTokens>(args, stage, shared);
  SideSums sums = {};
  while (stage.first < end) {
    stage_rows<kType>(scales, side() * kScaledBlocks, shared);
    sync_threads();
    const Stage next{1 - stage.number, stage.first + kUnitBlocks, end, token};
    if (next.first < end) begin_stage<kType, kWideTokens>(args, next, shared);
    if (rows.end != 0) {
      const WarpPart part{stage.first, 0, reread_thread_index() / 32 / kWideSides * kUnitBlocks,
                          side()};
      add_part<kType, kWideTokens, kUnitBlocks, 0>(shared, rows, part, stage.number, words, sums);
    }
    load_scales<kType>(matrix, row_tile(), rows, next.first + side() * kScaledBlocks, scales);
    if (next.first < end) end_stage<kType, kWideTokens>(args, next, shared);
    sync_threads();
    stage = next;
  }
  sums.add_to_all((begin - stage.first) * kRounderBits);
  hand_over_wide(args, matrix, sums, shared.row_bounds);
}

// Runs the kernel of a quantised type for any number of rows of x.
template <WeightType kType>
const char* run_wide(const ProductArgs& args, Stream stream) {
  ProductArgs shared = args;
  shared.token_tiles = (args.tokens + kWideTokens - 1) / kWideTokens;
  const std::uint32_t groups = deal_groups(shared, kWideTiles);
  cut_shares(shared, groups, kUnitBlocks);
  return launch_early(product_wide<kType>, {shared.token_tiles * shared.shares, groups},
                      kProductThreads, sizeof(TensorShared<kType>), stream, shared);
}

const char* run_wide_small(WeightType type, const ProductArgs& args, Stream stream);
const char* run_wide_super(WeightType type, const ProductArgs& args, Stream stream);

}  // namespace hearth::kernels::cuda
