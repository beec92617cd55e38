// The product for 17 to 32 rows of x, on the integer tensor cores, for the types that are
// quantised. A block of 8 warps takes two tiles of 32 rows: four warps a tile, each of which takes
// four of every sixteen blocks of 32 columns. The layout of a tile fits as it is: the words of 8
// rows that a lane of mma.sync needs lie side by side, so they are loaded directly from global
// memory. A matrix of few rows is cut into shares of its columns, so that there are blocks for
// every multiprocessor; their sums meet as those of product.cuh do.
#pragma once

#include "kernels/cuda/tensor.cuh"

namespace hearth::kernels::cuda {

inline constexpr std::uint32_t kBatchTokens = 32;
inline constexpr std::uint32_t kBatchTiles = 2;
inline constexpr std::uint32_t kBatchSides = kProductWarps / kBatchTiles;
inline constexpr std::uint32_t kStepBlocks = kBatchSides * kScaledBlocks;  // of 32 columns
static_assert(kStepBlocks * 2 * kBatchTokens == kStageValues);

// Where a warp's sums lie for the others: four of a lane together.
HEARTH_DEVICE std::uint32_t sums_place(std::uint32_t warp, std::uint32_t within) {
  return warp * (kTileRows * kBatchTokens / 4) + within;
}

HEARTH_DEVICE void publish_batch(const SideSums& sums, SharedArray<Words4, 2 * kStageValues>& to) {
  const std::uint32_t thread = reread_thread_index();
  HEARTH_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    HEARTH_UNROLL
    for (unsigned n = 0; n < kBatchTokens / 8; ++n) {
      Words4 four;
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        four.at[i] = sums.at[half][n][i];
      }
      const std::uint32_t within = (half * (kBatchTokens / 8) + n) * 32 + thread % 32;
      to.put(sums_place(thread / 32, within), four);
    }
  }
}

// From the sums of the warps to outputs, or to the sums of all shares: a thread takes one place of
// publish_batch's in either tile.
template <typename Shared>
HEARTH_DEVICE void hand_over_batch(const ProductArgs& args, const ProductMatrix& matrix,
                                   Shared& shared) {
  const std::uint32_t thread = reread_thread_index();
  const std::uint32_t lane = thread % 32;
  const std::uint32_t run = thread / 32;  // 4 half + n
  const auto for_all = [&](auto&& take) {
    HEARTH_UNROLL
    for (std::uint32_t tile = 0; tile < kBatchTiles; ++tile) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const std::uint32_t group = block_index_x() - matrix.first_group;
        const std::uint32_t row =
            (group * kBatchTiles + tile) * kTileRows + run / 4 * 16 + i / 2 * 8 + lane / 4;
        const std::uint32_t token = token_of(run % 4, 2 * (lane % 4) + i % 2);
        const std::size_t place =
            ((std::size_t{block_index_x()} * kBatchTiles + tile) * 4 + i) * kProductThreads +
            thread;
        if (row < matrix.rows && token < args.tokens) take(tile, i, row, token, place);
      }
    }
  };
  std::uint32_t sums[kBatchTiles][4] = {};
  HEARTH_UNROLL
  for (std::uint32_t tile = 0; tile < kBatchTiles; ++tile) {
    HEARTH_UNROLL
    for (std::uint32_t side = 0; side < kBatchSides; ++side) {
      const Words4 four = shared.values.get(sums_place(tile * kBatchSides + side, thread));
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) sums[tile][i] += four.at[i];
    }
  }
  for_all([&](std::uint32_t tile, unsigned i, std::uint32_t row, std::uint32_t token,
              std::size_t place) {
    const auto sum = static_cast<std::int32_t>(sums[tile][i]);
    if (args.shares == 1) {
      finish(args, matrix, row, token, sum);
    } else {
      atomic_add(args.shared_sums, place, sum);
    }
  });
  if (args.shares == 1 || !last_of_shares(args, block_index_x(), shared.row_bounds)) return;
  for_all([&](std::uint32_t, unsigned, std::uint32_t row, std::uint32_t token, std::size_t place) {
    finish(args, matrix, row, token, atomic_exchange(args.shared_sums, place, 0));
  });
}

template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
product_batch(ProductArgs args) {
  wait_for_previous_kernel();
  TensorShared<kType>& shared = shared_memory<TensorShared<kType>>();
  const ProductMatrix& matrix = matrix_of(args, block_index_x());
  const auto row_tile = [&] {
    return (block_index_x() - matrix.first_group) * kBatchTiles +
           reread_thread_index() / 32 / kBatchSides;
  };
  // This warp's blocks of a step.
  const auto own = [] { return reread_thread_index() / 32 % kBatchSides * kScaledBlocks; };
  const std::uint32_t begin = block_index_y() * args.share_blocks;
  const std::uint32_t end = share_end(args, begin);
  const WarpRows rows = warp_rows(args, matrix, row_tile(), end);
  BlockWords<kType> words;
  ScaleWords<kType> scales;
  load_block<kType>(rows, begin + own(), words);
  load_scales<kType>(matrix, row_tile(), rows, begin + own(), scales);
  Stage stage{0, begin, end, 0};
  begin_stage<kType, kBatchTokens>(args, stage, shared);
  end_stage<kType, kBatchTokens>(args, stage, shared);
  sync_threads();
  SideSums sums = {};
  while (stage.first < end) {
    stage_rows<kType>(scales, own(), shared);
    sync_warp();
    const Stage next{1 - stage.number, stage.first + kStepBlocks, end, 0};
    if (next.first < end) begin_stage<kType, kBatchTokens>(args, next, shared);
    const WarpPart part{stage.first + own(), own(), reread_thread_index() / 32 * kScaledBlocks, 0};
    if (part.first < rows.end) {
      add_part<kType, kBatchTokens, kScaledBlocks, kStepBlocks - kScaledBlocks>(
          shared, rows, part, stage.number, words, sums);
    }
    load_scales<kType>(matrix, row_tile(), rows, next.first + own(), scales);
    if (next.first < end) end_stage<kType, kBatchTokens>(args, next, shared);
    sync_threads();
    stage = next;
  }
  const std::uint32_t first = begin + own();
  const std::uint32_t parts =
      first < rows.end ? (rows.end - first + kStepBlocks - 1) / kStepBlocks : 0;
  sums.add_to_all(0U - parts * kScaledBlocks * kRounderBits);
  publish_batch(sums, shared.values);
  sync_threads();
  hand_over_batch(args, matrix, shared);
}

// Runs the kernel of a quantised type for args.tokens rows, at most kBatchTokens.
template <WeightType kType>
const char* run_batch(const ProductArgs& args, Stream stream) {
  ProductArgs shared = args;
  const std::uint32_t groups = deal_groups(shared, kBatchTiles);
  cut_shares(shared, groups, kStepBlocks);
  return launch_early(product_batch<kType>, {groups, shared.shares}, kProductThreads,
                      sizeof(TensorShared<kType>), stream, shared);
}

const char* run_batch_small(WeightType type, const ProductArgs& args, Stream stream);
const char* run_batch_super(WeightType type, const ProductArgs& args, Stream stream);

}  // namespace hearth::kernels::cuda
