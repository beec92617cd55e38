// The product for more rows of x than 32, as a prompt has them, on the integer tensor cores. A
// block of 8 warps takes four tiles of 32 rows and 64 tokens, 16 rows a warp, and walks the columns
// in units of 256. All token tiles of the same rows run side by side, so that their weights come
// from the second-level cache.
//
// Neither memory nor the tensor core limits the speed, but rounding every block of 32 columns to
// the grid: six instructions for each output, against one sixteenth of an mma.sync. So everything
// else is arranged around it. A warp takes weights apart once for all 64 tokens; activations of the
// next unit are on their way into the other half of shared memory while this one is computed; one
// barrier a unit is enough.
#pragma once

#include "kernels/cuda/batch.cuh"

namespace hearth::kernels::cuda {

inline constexpr std::uint32_t kWideTokens = 64;
inline constexpr std::uint32_t kWideTiles = kProductWarps / 2;
inline constexpr std::uint32_t kWideRuns = kWideTokens / 8;
inline constexpr std::uint32_t kUnitPlaces = kUnitBlocks * kWideTokens;
inline constexpr std::uint32_t kStaged = kUnitPlaces / kProductThreads;  // blocks of a thread
static_assert(kStaged * 4 == kUnitBlocks && kProductWarps * 8 == kWideTokens);

struct WideShared {
  SharedArray<Words4, 2 * kUnitPlaces * 2> values;  // [stage][block][half][token]
  SharedArray<float, 2 * kUnitPlaces> scales;       // [stage][block][token]
  SharedArray<std::uint32_t, 2 * kUnitPlaces> extras;
  SharedArray<std::uint32_t, kProductWarps * 4 * 32> words;  // scales of records, a warp each
};

// The part of a unit's activations that goes through registers.
struct Pending {
  float scales[kStaged];
  std::uint32_t extras[kStaged];
};

// Tiles of tokens and shares of the columns lie side by side in the grid; there is one of either.
HEARTH_DEVICE std::uint32_t token_tile(const ProductArgs& args) {
  return args.shares == 1 ? block_index_x() : 0;
}

// Block and token that this thread stages in its round i, and whether there is something to stage.
struct StagedPlace {
  std::uint32_t place;  // [block][token]
  std::uint32_t block;
  std::uint32_t token;  // of x
  bool counts;
};
HEARTH_DEVICE StagedPlace staged_place(const ProductArgs& args, std::uint32_t unit,
                                       std::uint32_t i) {
  // A warp takes four blocks of eight tokens: whole lines of x, and words of every bank.
  const std::uint32_t b = 4 * i + thread_index() % 32 / 8;
  const std::uint32_t in_tile = thread_index() / 32 * 8 + thread_index() % 8;
  const std::uint32_t block = unit + b;
  const std::uint32_t token = token_tile(args) * kWideTokens + in_tile;
  return {b * kWideTokens + in_tile, block, token, token < args.tokens && block < args.blocks};
}

// Sends the values of the unit that begins at block `unit` on their way and loads the rest. Tokens
// and blocks that are not there are zero.
template <WeightType kType>
HEARTH_DEVICE void begin_unit(const ProductArgs& args, std::uint32_t unit, std::uint32_t stage,
                              WideShared& shared, Pending& pending) {
  const Global<const Words4> values = args.values.as<const Words4>();
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i < kStaged; ++i) {
    const StagedPlace to = staged_place(args, unit, i);
    const std::uint32_t in_tile = to.place % kWideTokens;
    const std::uint32_t low =
        stage * 2 * kUnitPlaces + 2 * (to.place / kWideTokens) * kWideTokens + in_tile;
    pending.scales[i] = 0.0F;
    pending.extras[i] = 0;
    if (!to.counts) {
      shared.values.put(low, Words4{});
      shared.values.put(low + kWideTokens, Words4{});
      continue;
    }
    const std::size_t at = std::size_t{to.token} * args.blocks + to.block;
    copy_async(shared.values, low, values, 2 * at);
    copy_async(shared.values, low + kWideTokens, values, 2 * at + 1);
    pending.scales[i] = args.scales.get(at);
    pending.extras[i] = extra_of<kType>(args, at);
  }
  copy_commit();
}

HEARTH_DEVICE void end_unit(const ProductArgs& args, std::uint32_t unit, std::uint32_t stage,
                            WideShared& shared, const Pending& pending) {
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i < kStaged; ++i) {
    const std::uint32_t place = stage * kUnitPlaces + staged_place(args, unit, i).place;
    shared.scales.put(place, pending.scales[i]);
    shared.extras.put(place, pending.extras[i]);
  }
}

using WideSums = std::int32_t[kWideRuns][4];

// One block of 32 columns: `b` in the record, `staged` in shared memory. `mine`: the scales of row
// lane % 16 of the warp's 16, which begin at `first_row` of the tile.
template <WeightType kType>
HEARTH_DEVICE void add_wide_block(const ProductArgs& args, const WideShared& shared,
                                  Global<const std::byte> tile, std::uint32_t first_row,
                                  std::uint32_t b, std::uint32_t staged, const BlockScales& mine,
                                  WideSums& sums) {
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
      sums[n][i] +=
          grid_steps<kType>(dots, rows[i / 2], shared.scales.get(at), shared.extras.get(at));
    }
  }
}

template <WeightType kType>
HEARTH_DEVICE void add_wide_unit(const ProductArgs& args, Global<const std::byte> unit,
                                 std::uint32_t first_row, std::uint32_t stage, std::uint32_t count,
                                 float row_factor, WideShared& shared, WideSums& sums) {
  constexpr std::uint32_t blocks = Record<kType>::kLayout.blocks;
  for (std::uint32_t first = 0; first < count; first += blocks) {
    const Global<const std::byte> tile = unit.at(first / blocks * args.tile_bytes);
    const auto record = stage_scales<kType>(tile, first_row + thread_index() % 16, shared);
    HEARTH_ROLL
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const BlockScales mine = scaled(scales_of<kType>(record, b), row_factor);
      add_wide_block<kType>(args, shared, tile, first_row, b, stage * kUnitBlocks + first + b, mine,
                            sums);
    }
  }
}

// From a lane's sums to outputs, or to the sums of all shares.
HEARTH_DEVICE void hand_over(const ProductArgs& args, const WideSums& sums, WideShared& shared) {
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
        finish(args, row, token, sums[n][i]);
      } else {
        atomic_add(args.shared_sums, place(in_block, in_tile), sums[n][i]);
      }
    }
  }
  if (args.shares == 1 || !last_of_shares(args, block_index_y(), shared.words)) return;
  for (std::uint32_t i = thread_index(); i < rows * args.tokens; i += kProductThreads) {
    const std::uint32_t row = block_index_y() * rows + i % rows;
    if (row >= args.rows) continue;
    finish(args, row, i / rows, atomic_exchange(args.shared_sums, place(i % rows, i / rows), 0));
  }
}

template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
product_wide(ProductArgs args) {
  wait_for_previous_kernel();
  WideShared& shared = shared_memory<WideShared>();
  const unsigned lane = thread_index() % 32;
  const std::uint32_t group = thread_index() / 32;  // of 16 rows
  const std::uint32_t row_tile = block_index_y() * kWideTiles + group / 2;
  const std::uint32_t first_row = group % 2 * 16;
  const bool there = row_tile < args.row_tiles;
  const float row_factor =
      there ? power_of_two(-args.weight_exponents.get(row_tile * kTileRows + first_row + lane % 16))
            : 0.0F;
  WideSums sums = {};
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
    const std::uint32_t left = end - unit;
    if (next < end) begin_unit<kType>(args, next, 1 - stage, shared, pending);
    if (there) {
      const std::size_t record = unit / Record<kType>::kLayout.blocks;
      add_wide_unit<kType>(
          args, args.tiles.at((std::size_t{row_tile} * args.records + record) * args.tile_bytes),
          first_row, stage, left < kUnitBlocks ? left : kUnitBlocks, row_factor, shared, sums);
    }
    if (next < end) end_unit(args, next, 1 - stage, shared, pending);
    copy_wait<0>();
    sync_threads();
    stage = 1 - stage;
  }
  hand_over(args, sums, shared);
}

// Runs the kernel of a quantised type for any number of rows of x.
template <WeightType kType>
const char* run_wide(const ProductArgs& args, Stream stream) {
  const std::uint32_t token_tiles = (args.tokens + kWideTokens - 1) / kWideTokens;
  const std::uint32_t rows = (args.row_tiles + kWideTiles - 1) / kWideTiles;
  ProductArgs shared = args;
  shared.shares = 1;
  shared.share_blocks = args.blocks;
  if (token_tiles == 1) shared = in_shares(args, rows, kUnitBlocks);
  return launch_early(product_wide<kType>, {std::max(token_tiles, shared.shares), rows},
                      kProductThreads, sizeof(WideShared), stream, shared);
}

const char* run_wide_small(WeightType type, const ProductArgs& args, Stream stream);
const char* run_wide_super(WeightType type, const ProductArgs& args, Stream stream);

}  // namespace hearth::kernels::cuda
