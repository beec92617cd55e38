// The product for up to eight rows of x on the integer tensor cores, with the items, lists and
// sums of product_few.cuh, for the types that are quantised. A warp multiplies the 32 rows of an
// item with eight tokens, block of 32 columns after block. The layout of a tile fits as it is: the
// words of 8 rows that a lane of mma.sync needs lie side by side. Fragments of the next blocks are
// loaded into registers as soon as a block has used its own; a lane has the scales of its row and
// hands them to the lanes that need them.
#pragma once

#include "kernels/cuda/product_few.cuh"

namespace hearth::kernels::cuda {

struct EightShared {
  static constexpr std::uint32_t kBlocks = 128;
  static constexpr std::uint32_t kTiles = 8;
  // [block][half][token]: 16 columns of a token.
  SharedArray<Words4, kBlocks * 2 * 8> values;
  // [block][pair of tokens]: scale and extra_of() of the one and of the other.
  SharedArray<Words4, kBlocks * 4> factors;
  SharedArray<std::int32_t, kTiles * 8 * 32> sums;
};

// What a lane has of block b of a row: quads c and 4 + c, as they lie in the record, c = lane % 4.
template <WeightType kType>
struct Fragment {
  static constexpr std::uint32_t kBits = Record<kType>::kLayout.bits;
  static constexpr bool kCodebook = Record<kType>::kLayout.codebook != 0;
  static constexpr std::uint32_t kWhole = kBits == 8 || kCodebook ? 2 : has_nibbles(kBits) ? 1 : 0;
  static constexpr std::uint32_t kPairs = kCodebook || !has_pairs(kBits) ? 0 : 2;
  static constexpr std::uint32_t kSingles = kCodebook || !has_singles(kBits) ? 0 : 1;
  static constexpr std::uint32_t kWords = kWhole + kPairs + kSingles;
  std::uint32_t words[kWords];
};

// Of row lane / 4 + 8 j.
template <WeightType kType>
HEARTH_DEVICE void load_fragment(Global<const std::byte> tile, std::uint32_t j, std::uint32_t b,
                                 Fragment<kType>& out) {
  using F = Fragment<kType>;
  using R = Record<kType>;
  const std::uint32_t row = thread_index() % 32 / 4;
  const std::uint32_t c = thread_index() % 4;
  // Word first + further of the row's record; a piece of 16 bytes has both. The part of a lane
  // comes first, so that the rest is a constant of the load.
  const auto word = [&](std::uint32_t first, std::uint32_t further) {
    const std::size_t piece = word_offset(R::kBytes, first, 1) - word_offset(R::kBytes, first, 0);
    const Global<const std::byte> mine = tile.at(row * piece + 4 * further);
    return mine.at(word_offset(R::kBytes, first, 8 * j))
        .template as<const std::uint32_t>()
        .get_constant(0);
  };
  if constexpr (F::kBits == 8) {
    out.words[0] = word(8 * b, c);
    out.words[1] = word(8 * b + 4, c);
  } else if constexpr (F::kCodebook) {
    out.words[0] = word(R::kPlaces.nibbles + 4 * b, c / 2);
    out.words[1] = word(R::kPlaces.nibbles + 4 * b, 2 + c / 2);
  } else if constexpr (has_nibbles(F::kBits)) {
    out.words[0] = word(R::kPlaces.nibbles + 4 * b, c);
  }
  if constexpr (F::kPairs != 0) {
    out.words[F::kWhole] = word(R::kPlaces.pairs + 2 * b, 0);
    out.words[F::kWhole + 1] = word(R::kPlaces.pairs + 2 * b + 1, 0);
  }
  if constexpr (F::kSingles != 0) {
    out.words[F::kWhole + F::kPairs] = word(R::kPlaces.singles + b, 0);
  }
}

template <WeightType kType>
HEARTH_DEVICE void quads_of(const Fragment<kType>& fragment, std::uint32_t (&quads)[2]) {
  using F = Fragment<kType>;
  const std::uint32_t c = thread_index() % 4;
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < 2; ++h) {
    std::uint32_t four = 0;
    std::uint32_t shift = 0;
    if constexpr (F::kBits == 8) {
      four = fragment.words[h];
    } else if constexpr (F::kCodebook) {
      four = look_up(fragment.words[h] >> (c % 2 * 16));
    } else if constexpr (has_nibbles(F::kBits)) {
      four = fragment.words[0] >> (4 * h) & 0x0F0F0F0FU;
      shift = 4;
    }
    if constexpr (F::kPairs != 0) {
      four |= (fragment.words[F::kWhole + h] >> (2 * c) & 0x03030303U) << shift;
      shift += 2;
    }
    if constexpr (F::kSingles != 0) {
      four |= (fragment.words[F::kWhole + F::kPairs] >> (c + 4 * h) & 0x01010101U) << shift;
    }
    quads[h] = four;
  }
}

// The scales of a lane's row, as they lie in the record; the whole of what `scales_of` reads.
template <WeightType kType>
struct RowScales {
  HEARTH_DEVICE std::uint32_t scale_word(std::uint32_t i) const { return words[i]; }
  HEARTH_DEVICE std::uint32_t d_word() const { return words[scale_words(kType)]; }

  std::uint32_t words[scale_words(kType) + 1];
};

template <WeightType kType>
HEARTH_DEVICE void load_scales(Global<const std::byte> tile, RowScales<kType>& out) {
  using R = Record<kType>;
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i <= scale_words(kType); ++i) {
    const std::uint32_t w = R::kPlaces.scales + i;
    const Global<const std::byte> at = tile.at(word_offset(R::kBytes, w, thread_index() % 32));
    if (4 * w + 4 <= R::kBytes) {
      out.words[i] = at.template as<const std::uint32_t>().get_constant(0);
    } else {
      out.words[i] = at.template as<const std::uint16_t>().get_constant(0);
    }
  }
}

// Those of row `row`, from the lane that has them.
template <WeightType kType>
HEARTH_DEVICE BlockScales scales_of_row(const BlockScales& mine, std::uint32_t row) {
  using R = Record<kType>;
  BlockScales other;
  other.d = shuffle(mine.d, row);
  if constexpr (R::kLayout.minimum) other.m = shuffle(mine.m, row);
  if constexpr (R::kTwoScales) {
    const auto byte = [](std::int32_t v) { return static_cast<std::uint32_t>(v) & 255U; };
    const std::uint32_t packed = shuffle(
        byte(mine.s[0]) | byte(mine.s[1]) << 8 | byte(mine.t[0]) << 16 | byte(mine.t[1]) << 24,
        row);
    HEARTH_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      other.s[r] = static_cast<std::int8_t>(packed >> (8 * r) & 255U);
      if constexpr (R::kLayout.minimum) {
        other.t[r] = static_cast<std::int32_t>(packed >> (16 + 8 * r) & 255U);
      }
    }
  }
  return other;
}

// The blocks of an item whose fragments a lane has: those of four rows, lane / 4 and every eighth
// after it.
template <WeightType kType>
struct Ring {
  static constexpr std::uint32_t kBlocks = Fragment<kType>::kWords == 1 ? 8 : 4;
  static constexpr bool kOwnScales = Record<kType>::kLayout.blocks == 1;  // each block has a d
  Fragment<kType> fragments[kBlocks][4];
  RowScales<kType> scales[kOwnScales ? kBlocks : 1];
};

// Where the blocks of an item are, and how many: eight or none where a record has eight.
struct ItemPlace {
  template <WeightType kType>
  HEARTH_DEVICE bool has(std::uint32_t b) const {
    return Record<kType>::kLayout.blocks == 1 ? b < blocks : blocks != 0;
  }

  Global<const std::byte> tiles;
  std::uint32_t blocks = 0;
};

template <WeightType kType>
HEARTH_DEVICE ItemPlace place_of(const ListArgs& args, const Items& items, const Item& item) {
  const std::uint32_t left = args.blocks - (items.first_unit + item.unit) * kUnitBlocks;
  return {batch_of<kType>(args, items, item, 0).tiles, left < kUnitBlocks ? left : kUnitBlocks};
}

// Loads block b of the item; a super-block's scales come with load_scales.
template <WeightType kType>
HEARTH_DEVICE void load_block(const ItemPlace& place, std::size_t tile_bytes, std::uint32_t b,
                              Ring<kType>& ring) {
  if (!place.template has<kType>(b)) return;
  using R = Ring<kType>;
  const Global<const std::byte> tile = place.tiles.at(R::kOwnScales ? b * tile_bytes : 0);
  if constexpr (R::kOwnScales) load_scales(tile, ring.scales[b % R::kBlocks]);
  HEARTH_UNROLL
  for (std::uint32_t j = 0; j < 4; ++j) {
    load_fragment(tile, j, R::kOwnScales ? 0 : b, ring.fragments[b % R::kBlocks][j]);
  }
}

// The products of rows 16 m to 16 m + 15 with the tokens; of the halves of the columns where the
// type has two scales.
template <WeightType kType>
HEARTH_DEVICE void multiply_rows(const Fragment<kType> (&fragments)[4], std::uint32_t m,
                                 const std::uint32_t (&tokens)[2], std::int32_t (&dots)[2][4]) {
  using R = Record<kType>;
  std::uint32_t upper[2];
  std::uint32_t lower[2];
  quads_of(fragments[2 * m], upper);
  quads_of(fragments[2 * m + 1], lower);
  if constexpr (R::kTwoScales) {
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
      const std::uint32_t rows[2] = {upper[h], lower[h]};
      if constexpr (R::kSigned) {
        multiply_16x8x16(dots[h], rows, tokens[h]);
      } else {
        multiply_16x8x16_unsigned(dots[h], rows, tokens[h]);
      }
    }
  } else {
    const std::uint32_t rows[4] = {upper[0], lower[0], upper[1], lower[1]};
    if constexpr (R::kSigned) {
      multiply_16x8x32(dots[0], rows, tokens);
    } else {
      multiply_16x8x32_unsigned(dots[0], rows, tokens);
    }
  }
}

// A lane's sums: of rows lane / 4 + 8 j and tokens lane % 4 * 2 + i, at [j][i].
using EightSums = std::int32_t[4][2];

// Adds block `at` of the share; `mine`: the scales of the lane's row, with its factor.
template <WeightType kType>
HEARTH_DEVICE void add_eight(const EightShared& shared, std::uint32_t at,
                             const Fragment<kType> (&fragments)[4], const BlockScales& mine,
                             EightSums& sums) {
  const std::uint32_t lane = thread_index() % 32;
  const std::uint32_t tokens[2] = {shared.values.word(std::size_t{2 * at} * 32 + lane),
                                   shared.values.word(std::size_t{2 * at + 1} * 32 + lane)};
  const Words4 factors = shared.factors.get(4 * at + lane % 4);
  HEARTH_UNROLL
  for (std::uint32_t m = 0; m < 2; ++m) {
    std::int32_t dots[2][4] = {};
    multiply_rows(fragments, m, tokens, dots);
    HEARTH_UNROLL
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t j = 2 * m + half;
      const BlockScales row = scales_of_row<kType>(mine, lane / 4 + 8 * j);
      HEARTH_UNROLL
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::int32_t both[2] = {dots[0][2 * half + i], dots[1][2 * half + i]};
        sums[j][i] += grid_steps<kType>(both, row, std::bit_cast<float>(factors.at[2 * i]),
                                        factors.at[2 * i + 1]);
      }
    }
  }
}

// Brings the activations of the share into shared memory, and clears the sums. Tokens that are not
// there are zero.
template <WeightType kType>
HEARTH_DEVICE void stage_eight(const ListArgs& args, std::uint32_t first, std::uint32_t count,
                               EightShared& shared) {
  const auto values = args.values.as<const Words4>();
  for (std::uint32_t i = thread_index(); i < 4 * count; i += kProductThreads) {
    const std::uint32_t pair = i / count;
    const std::uint32_t b = i % count;
    Words4 factors{};
    HEARTH_UNROLL
    for (std::uint32_t k = 0; k < 2; ++k) {
      const std::uint32_t t = 2 * pair + k;
      const std::uint32_t place = 2 * b * 8 + t;
      if (t >= args.tokens) {
        shared.values.put(place, Words4{});
        shared.values.put(place + 8, Words4{});
        continue;
      }
      const std::size_t at = std::size_t{t} * args.blocks + first + b;
      copy_async(shared.values, place, values, 2 * at);
      copy_async(shared.values, place + 8, values, 2 * at + 1);
      factors.at[2 * k] = std::bit_cast<std::uint32_t>(args.scales.get(at));
      factors.at[2 * k + 1] = extra_of<kType>(args, at);
    }
    shared.factors.put(4 * b + pair, factors);
  }
  copy_commit();
  for (std::uint32_t i = thread_index(); i < EightShared::kTiles * 8 * 32; i += kProductThreads) {
    shared.sums.put(i, 0);
  }
}

// Adds a lane's sums of a tile, tile `place` of the block, to those of the other warps.
HEARTH_DEVICE void hand_in(EightShared& shared, std::uint32_t place, EightSums& sums) {
  const std::uint32_t lane = thread_index() % 32;
  HEARTH_UNROLL
  for (std::uint32_t j = 0; j < 4; ++j) {
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t token = lane % 4 * 2 + i;
      atomic_add(shared.sums, (place * 8 + token) * 32 + lane / 4 + 8 * j, sums[j][i]);
      sums[j][i] = 0;
    }
  }
}

// Block `block` of those that share the list's items.
template <WeightType kType>
HEARTH_DEVICE void eight_of_block(const ListArgs& args, std::uint32_t block) {
  using R = Ring<kType>;
  EightShared& shared = shared_memory<EightShared>();
  const Items items = items_of(args, block);
  Walk walk(items);
  ItemPlace here;
  R ring;
  std::int32_t exponent = 0;
  if (walk.left > 0) {
    here = place_of<kType>(args, items, walk.item);
    if constexpr (!R::kOwnScales) load_scales(here.tiles, ring.scales[0]);
    HEARTH_UNROLL
    for (std::uint32_t b = 0; b < R::kBlocks; ++b) load_block(here, args.tile_bytes, b, ring);
    exponent = row_exponent(args, walk.item.tile);
  }
  const std::uint32_t first = items.first_unit * kUnitBlocks;
  const std::uint32_t count = items.units * kUnitBlocks;
  wait_for_previous_kernel();
  stage_eight<kType>(args, first, args.blocks - first < count ? args.blocks - first : count,
                     shared);
  copy_wait<0>();
  sync_threads();
  EightSums sums = {};
  while (walk.left > 0) {
    const Item mine = walk.item;
    const float row_factor = power_of_two(-exponent);
    const RowScales<kType> scales = ring.scales[0];
    ItemPlace next;
    if (walk.step(items)) {
      next = place_of<kType>(args, items, walk.item);
      if constexpr (!R::kOwnScales) load_scales(next.tiles, ring.scales[0]);
      exponent = row_exponent(args, walk.item.tile);
    }
    HEARTH_UNROLL
    for (std::uint32_t b = 0; b < kUnitBlocks; ++b) {
      sync_warp();  // keeps the compiler from loading for several blocks at once
      if (here.has<kType>(b)) {
        const RowScales<kType>& words = R::kOwnScales ? ring.scales[b % R::kBlocks] : scales;
        const BlockScales row = scaled(scales_of<kType>(words, R::kOwnScales ? 0 : b), row_factor);
        add_eight<kType>(shared, mine.unit * kUnitBlocks + b, ring.fragments[b % R::kBlocks], row,
                         sums);
      }
      if (b + R::kBlocks < kUnitBlocks) {
        load_block(here, args.tile_bytes, b + R::kBlocks, ring);
      } else {
        load_block(next, args.tile_bytes, b + R::kBlocks - kUnitBlocks, ring);
      }
    }
    here = next;
    if (walk.left == 0 || walk.item.tile != mine.tile) {
      hand_in(shared, mine.tile - items.first_tile, sums);
    }
  }
  sync_threads();
  if (items.begin < items.end) finish_tiles<8>(args, items, shared);
}

template <WeightType kType>
HEARTH_KERNEL(kProductThreads, 2)
product_eight(ListArgs args) {
  eight_of_block<kType>(args, block_index_x());
}

// Runs the kernel of a type for args.tokens rows; null, or the runtime's error.
template <WeightType kType>
const char* run_few(const ListArgs& args, std::uint32_t slots, Stream stream) {
  if (args.tokens == 1) {
    return run_kernel<FewShared<1>>(product_tiles<kType, 1>, args, slots, stream);
  }
  // The other types lack registers for two tokens in a lane.
  if constexpr (!Record<kType>::kTwoScales && kType != WeightType::kIQ4_XS) {
    if (args.tokens == 2) {
      return run_kernel<FewShared<2>>(product_tiles<kType, 2>, args, slots, stream);
    }
  }
  if constexpr (!Record<kType>::kFloating) {
    return run_kernel<EightShared>(product_eight<kType>, args, slots, stream);
  } else if (args.tokens <= 4) {
    return run_kernel<FewShared<4>>(product_tiles<kType, 4>, args, slots, stream);
  } else {
    return run_kernel<FewShared<8>>(product_tiles<kType, 8>, args, slots, stream);
  }
}

}  // namespace hearth::kernels::cuda
