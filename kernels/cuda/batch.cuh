// The product for more rows of x than eight, on the integer tensor cores, for the types that are
// quantised. A block of 8 warps takes two tiles of 32 rows and 32 tokens: four warps a tile, each
// of which takes every fourth unit of 256 columns. The layout of a tile fits as it is: the words of
// 8 rows that a lane of mma.sync needs lie side by side, so fragments are loaded directly from
// global memory. Activations of four units lie in shared memory, where eight tokens' words lie side
// by side. After each block of 32 columns its 32 x 32 products are turned into grid steps and added
// as integers; this step, not the tensor core, limits the speed. A matrix of few rows is cut into
// shares of its columns, so that there are blocks for every multiprocessor; their sums meet as
// those of product.cuh do.
#pragma once

#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

inline constexpr std::uint32_t kBatchTokens = 32;
inline constexpr std::uint32_t kBatchTiles = 2;
inline constexpr std::uint32_t kBatchUnits = kProductWarps / kBatchTiles;
inline constexpr std::uint32_t kStepBlocks = kBatchUnits * kUnitBlocks;  // of 32 columns

struct BatchShared {
  // [block][half][token]: 16 columns of a token.
  SharedArray<Words4, kStepBlocks * 2 * kBatchTokens> values;
  SharedArray<float, kStepBlocks * kBatchTokens> scales;  // [block][token]
  SharedArray<std::uint32_t, kStepBlocks * kBatchTokens> extras;
  // Until the end the integer scales of each warp's records, [warp][word][lane]; then the sums,
  // [row][token].
  SharedArray<std::uint32_t, kBatchTiles * kTileRows * kBatchTokens> words;
};

// Quads c and 4 + c of block b of a row's record: what a lane hands to the two halves of mma.sync.
template <WeightType kType>
HEARTH_DEVICE void fragment_of(Global<const std::byte> tile, std::uint32_t row, std::uint32_t b,
                               std::uint32_t c, std::uint32_t (&quads)[2]) {
  using R = Record<kType>;
  constexpr std::uint32_t bits = R::kLayout.bits;
  // The quants of a super-block lie in whole pieces of 16 bytes, so that b need not be known early.
  const auto word = [&](std::uint32_t first, std::uint32_t further) {
    const std::size_t at = R::kLayout.blocks == 8
                               ? std::size_t{first / 4} * 16 * kTileRows + row * 16 + first % 4 * 4
                               : word_offset(R::kBytes, first, row);
    return tile.at(at + 4 * further).template as<const std::uint32_t>().get(0);
  };
  quads[0] = quads[1] = 0;
  std::uint32_t shift = 0;
  if constexpr (bits == 8) {
    quads[0] = word(8 * b, c);
    quads[1] = word(8 * b + 4, c);
  } else if constexpr (R::kLayout.codebook != 0) {
    const std::uint32_t first = R::kPlaces.nibbles + 4 * b;
    quads[0] = look_up(word(first, c / 2) >> (c % 2 * 16));
    quads[1] = look_up(word(first, 2 + c / 2) >> (c % 2 * 16));
  } else if constexpr (has_nibbles(bits)) {
    const std::uint32_t both = word(R::kPlaces.nibbles + 4 * b, c);
    quads[0] = both & 0x0F0F0F0FU;
    quads[1] = both >> 4 & 0x0F0F0F0FU;
    shift = 4;
  }
  if constexpr (has_pairs(bits)) {
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
      const std::uint32_t pairs = word(R::kPlaces.pairs + 2 * b + h, 0);
      quads[h] |= (pairs >> (2 * c) & 0x03030303U) << shift;
    }
    shift += 2;
  }
  if constexpr (has_singles(bits)) {
    const std::uint32_t singles = word(R::kPlaces.singles + b, 0) >> c;
    quads[0] |= (singles & 0x01010101U) << shift;
    quads[1] |= (singles >> 4 & 0x01010101U) << shift;
  }
}

// The integer scales of a lane's row, in the warp's part of shared memory, and its d.
template <typename Shared>
struct StagedScales {
  HEARTH_DEVICE std::uint32_t scale_word(std::uint32_t i) const {
    return shared.words.get(place + 32 * i);
  }
  HEARTH_DEVICE std::uint32_t d_word() const { return d; }

  const Shared& shared;
  std::uint32_t place;
  std::uint32_t d;
};

// Those of row `row` of a tile, for this lane.
template <WeightType kType, typename Shared>
HEARTH_DEVICE StagedScales<Shared> stage_scales(Global<const std::byte> tile, std::uint32_t row,
                                                Shared& shared) {
  using R = Record<kType>;
  const std::uint32_t place = thread_index() / 32 * 4 * 32 + thread_index() % 32;
  const auto word = [&](std::uint32_t w) {
    const Global<const std::byte> at = tile.at(word_offset(R::kBytes, w, row));
    if (w * 4 + 4 <= R::kBytes) return at.template as<const std::uint32_t>().get(0);
    return std::uint32_t{at.template as<const std::uint16_t>().get(0)};
  };
  if constexpr (scale_words(kType) != 0) {
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i < scale_words(kType); ++i) {
      shared.words.put(place + 32 * i, word(R::kPlaces.scales + i));
    }
  }
  return {shared, place, word(R::kPlaces.d)};
}

// Another lane's scales: two words and a packed one.
template <WeightType kType>
HEARTH_DEVICE BlockScales scales_from(const BlockScales& mine, std::uint32_t lane) {
  using R = Record<kType>;
  BlockScales other;
  other.d = shuffle(mine.d, lane);
  if constexpr (R::kLayout.minimum) other.m = shuffle(mine.m, lane);
  if constexpr (R::kTwoScales) {
    const auto byte = [](std::int32_t v) { return static_cast<std::uint32_t>(v) & 255U; };
    const std::uint32_t packed = shuffle(
        byte(mine.s[0]) | byte(mine.s[1]) << 8 | byte(mine.t[0]) << 16 | byte(mine.t[1]) << 24,
        lane);
    HEARTH_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      other.s[r] = static_cast<std::int8_t>(packed >> (8 * r) & 255U);
      other.t[r] = static_cast<std::int32_t>(packed >> (16 + 8 * r) & 255U);
    }
  }
  return other;
}

// Brings the activations of `count` blocks from `first` on into shared memory. Tokens that are not
// there are zero.
template <WeightType kType>
HEARTH_DEVICE void stage_batch(const ProductArgs& args, std::uint32_t first, std::uint32_t count,
                               BatchShared& shared) {
  const Global<const Words4> values = args.values.as<const Words4>();
  for (std::uint32_t i = thread_index(); i < kBatchTokens * count; i += kProductThreads) {
    const std::uint32_t token = i / count;
    const std::uint32_t b = i % count;
    const std::uint32_t place = b * kBatchTokens + token;
    const std::uint32_t low = 2 * b * kBatchTokens + token;
    if (token >= args.tokens) {
      shared.values.put(low, Words4{});
      shared.values.put(low + kBatchTokens, Words4{});
      shared.scales.put(place, 0.0F);
      shared.extras.put(place, 0U);
      continue;
    }
    const std::size_t at = std::size_t{token} * args.blocks + first + b;
    copy_async(shared.values, low, values, 2 * at);
    copy_async(shared.values, low + kBatchTokens, values, 2 * at + 1);
    shared.scales.put(place, args.scales.get(at));
    shared.extras.put(place, extra_of<kType>(args, at));
  }
  copy_commit();
}

using BatchSums = std::int32_t[2][kBatchTokens / 8][4];

// Products of 16 rows of a block with 8 tokens: of the halves where the type has two scales.
template <WeightType kType>
HEARTH_DEVICE void multiply_block(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                  std::int32_t (&low)[4], std::int32_t (&high)[4]) {
  using R = Record<kType>;
  if constexpr (R::kTwoScales) {
    const std::uint32_t first[2] = {a[0], a[1]};
    const std::uint32_t second[2] = {a[2], a[3]};
    multiply_16x8x16_unsigned(low, first, b[0]);
    multiply_16x8x16_unsigned(high, second, b[1]);
  } else if constexpr (R::kSigned) {
    multiply_16x8x32(low, a, b);
  } else {
    multiply_16x8x32_unsigned(low, a, b);
  }
}

// Adds one block of 32 columns: `b` in the record, `staged` in shared memory. `mine`: the scales of
// this lane's row.
template <WeightType kType>
HEARTH_DEVICE void add_block(const BatchShared& shared, Global<const std::byte> tile,
                             std::uint32_t b, std::uint32_t staged, const BlockScales& mine,
                             BatchSums& sums) {
  const unsigned lane = thread_index() % 32;
  const unsigned g = lane / 4;
  const unsigned c = lane % 4;
  HEARTH_UNROLL
  for (unsigned half = 0; half < 2; ++half) {  // 16 rows each
    std::uint32_t a[4];
    BlockScales rows[2];
    HEARTH_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint32_t row = 16 * half + 8 * i + g;
      std::uint32_t quads[2];
      fragment_of<kType>(tile, row, b, c, quads);
      a[i] = quads[0];
      a[2 + i] = quads[1];
      rows[i] = scales_from<kType>(mine, row);
    }
    HEARTH_UNROLL
    for (unsigned n = 0; n < kBatchTokens / 8; ++n) {
      const std::uint32_t low_word = (2 * staged * kBatchTokens + 8 * n + g) * 4 + c;
      const std::uint32_t right[2] = {shared.values.word(low_word),
                                      shared.values.word(low_word + 4 * kBatchTokens)};
      std::int32_t low[4] = {};
      std::int32_t high[4] = {};
      multiply_block<kType>(a, right, low, high);
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const std::uint32_t at = staged * kBatchTokens + 8 * n + 2 * c + i % 2;
        const std::int32_t dots[2] = {low[i], high[i]};
        sums[half][n][i] +=
            grid_steps<kType>(dots, rows[i / 2], shared.scales.get(at), shared.extras.get(at));
      }
    }
  }
}

// Adds the existing blocks of a unit of up to `count` blocks, whose first record is at `unit`.
template <WeightType kType>
HEARTH_DEVICE void add_unit(const ProductArgs& args, BatchShared& shared,
                            Global<const std::byte> unit, std::uint32_t staged, std::uint32_t count,
                            float row_factor, BatchSums& sums) {
  constexpr std::uint32_t blocks = Record<kType>::kLayout.blocks;
  for (std::uint32_t first = 0; first < count; first += blocks) {
    const Global<const std::byte> tile = unit.at(first / blocks * args.tile_bytes);
    const auto record = stage_scales<kType>(tile, thread_index() % 32, shared);
    HEARTH_ROLL
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const BlockScales mine = scaled(scales_of<kType>(record, b), row_factor);
      add_block<kType>(shared, tile, b, staged + first + b, mine, sums);
    }
  }
}

HEARTH_DEVICE void publish_batch(const BatchSums& sums, std::uint32_t tile, BatchShared& shared) {
  const unsigned lane = thread_index() % 32;
  HEARTH_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    HEARTH_UNROLL
    for (unsigned n = 0; n < kBatchTokens / 8; ++n) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const std::uint32_t row = tile * kTileRows + 16 * half + 8 * (i / 2) + lane / 4;
        const std::uint32_t token = 8 * n + 2 * (lane % 4) + i % 2;
        atomic_add(shared.words, row * kBatchTokens + token,
                   static_cast<std::uint32_t>(sums[half][n][i]));
      }
    }
  }
}

// From the sums of the block to outputs, or to the sums of all shares.
HEARTH_DEVICE void hand_over(const ProductArgs& args, BatchShared& shared) {
  constexpr std::uint32_t rows = kBatchTiles * kTileRows;
  constexpr std::uint32_t places = rows * kBatchTokens;
  const std::size_t first_place = std::size_t{block_index_x()} * places;
  const auto for_all = [&](auto&& take) {
    for (std::uint32_t i = thread_index(); i < places; i += kProductThreads) {
      const std::uint32_t row = block_index_x() * rows + i % rows;
      if (row < args.rows && i / rows < args.tokens) take(row, i / rows, first_place + i);
    }
  };
  for_all([&](std::uint32_t row, std::uint32_t token, std::size_t place) {
    const auto sum = static_cast<std::int32_t>(shared.words.get(row % rows * kBatchTokens + token));
    if (args.shares == 1) {
      finish(args, row, token, sum);
    } else {
      atomic_add(args.shared_sums, place, sum);
    }
  });
  if (args.shares == 1 || !last_of_shares(args, block_index_x(), shared.words)) return;
  for_all([&](std::uint32_t row, std::uint32_t token, std::size_t place) {
    finish(args, row, token, atomic_exchange(args.shared_sums, place, 0));
  });
}

template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
product_batch(ProductArgs args) {
  wait_for_previous_kernel();
  BatchShared& shared = shared_memory<BatchShared>();
  const unsigned warp = thread_index() / 32;
  const std::uint32_t tile = warp % kBatchTiles;
  const std::uint32_t row_tile = block_index_x() * kBatchTiles + tile;
  const std::uint32_t unit = warp / kBatchTiles;
  const bool there = row_tile < args.row_tiles;
  const float row_factor =
      there ? power_of_two(-args.weight_exponents.get(row_tile * kTileRows + thread_index() % 32))
            : 0.0F;
  BatchSums sums = {};
  const std::uint32_t begin = block_index_y() * args.share_blocks;
  const std::uint32_t end = share_end(args, begin);
  for (std::uint32_t first = begin; first < end; first += kStepBlocks) {
    const std::uint32_t left = end - first;
    const std::uint32_t count = left < kStepBlocks ? left : kStepBlocks;
    stage_batch<kType>(args, first, count, shared);
    copy_wait<0>();
    sync_threads();
    const std::uint32_t staged = unit * kUnitBlocks;
    if (there && staged < count) {
      const std::size_t record = (first + staged) / Record<kType>::kLayout.blocks;
      const std::uint32_t unit_left = count - staged;
      add_unit<kType>(
          args, shared,
          args.tiles.at((std::size_t{row_tile} * args.records + record) * args.tile_bytes), staged,
          unit_left < kUnitBlocks ? unit_left : kUnitBlocks, row_factor, sums);
    }
    sync_threads();
  }
  for (std::uint32_t i = thread_index(); i < kBatchTiles * kTileRows * kBatchTokens;
       i += kProductThreads) {
    shared.words.put(i, 0U);
  }
  sync_threads();
  publish_batch(sums, tile, shared);
  sync_threads();
  hand_over(args, shared);
}

// Runs the kernel of a quantised type for args.tokens rows, at most kBatchTokens.
template <WeightType kType>
const char* run_batch(const ProductArgs& args, Stream stream) {
  const std::uint32_t pairs = (args.row_tiles + kBatchTiles - 1) / kBatchTiles;
  const ProductArgs shared = in_shares(args, pairs, kStepBlocks);
  return launch_early(product_batch<kType>, {pairs, shared.shares}, kProductThreads,
                      sizeof(BatchShared), stream, shared);
}

const char* run_batch_small(WeightType type, const ProductArgs& args, Stream stream);
const char* run_batch_super(WeightType type, const ProductArgs& args, Stream stream);

}  // namespace hearth::kernels::cuda
