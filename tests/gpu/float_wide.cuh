// How the float kernel for prompts stages what it multiplies: a warp takes 16 rows and 64 tokens,
// and the scales of a row go from lane to lane. The exact kernel (kernels/cuda/wide.cuh) has a
// faster order, which this one does not follow.
#pragma once

#include "kernels/cuda/wide.cuh"

namespace hearth::gpu {

using namespace kernels;        // NOLINT
using namespace kernels::cuda;  // NOLINT

inline constexpr std::uint32_t kWideRuns = kWideTokens / 8;
inline constexpr std::uint32_t kUnitPlaces = kUnitBlocks * kWideTokens;
inline constexpr std::uint32_t kStaged = kUnitPlaces / kProductThreads;  // blocks of a thread

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

}  // namespace hearth::gpu
