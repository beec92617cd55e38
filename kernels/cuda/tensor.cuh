// What the products of more than 16 rows of x share: a warp multiplies 32 rows of weights with
// 32 tokens on the integer tensor cores, block of 32 columns by block.
//
// Neither memory nor the tensor core limits the speed, but the instructions that turn each of these
// 1024 products into grid steps: for a type with a minimum two multiplications, a conversion, an
// fma, the rounding and the addition, an output. Everything else is arranged to need few
// instructions.
//
// A block of 256 threads stages the activations of several blocks of columns in shared memory: each
// thread one block of a pair of tokens. Two stages take turns, so that the next one is on its way
// while this one is computed. A warp turns the scales of four blocks into numbers at once, a row a
// lane. Its words of weights are loaded one block ahead, for types of one scale.
#pragma once

#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

inline constexpr std::uint32_t kSideTokens = 32;   // of a warp
inline constexpr std::uint32_t kScaledBlocks = 4;  // whose scales a warp prepares at once
inline constexpr std::uint32_t kStageValues = kProductThreads * 4;  // of 16 bytes
// Adding it rounds |x| <= 2^22 to an integer, halves to even, and leaves it in the low bits.
inline constexpr float kRounder = 0x1.8p+23F;
inline constexpr std::uint32_t kRounderBits = 0x4B400000U;

// Whether quants go to mma.sync as signed ones without their offset. With two scales that saves two
// multiplications an output.
template <WeightType kType>
inline constexpr bool kWithoutZero = Record<kType>::kTwoScales&& Record<kType>::kZero != 0;

// D and M of a row and block with the row's factor, and the packed integer scales of both halves.
struct alignas(8) RowScales {
  float d;
  std::uint32_t other;  // M's bits, or the packed scales where the type has two
};
struct alignas(16) RowScalesTwo {
  float d;
  float m;
  std::uint32_t packed;
  std::uint32_t unused;
};
template <WeightType kType>
using StagedRow = std::conditional_t<Record<kType>::kTwoScales && Record<kType>::kLayout.minimum,
                                     RowScalesTwo, RowScales>;

template <WeightType kType>
struct TensorShared {
  SharedArray<Words4, 2 * kStageValues> values;  // [stage][block][half][token]
  // [stage][block][pair of tokens]: scale and further value of either.
  SharedArray<Words4, 2 * kProductThreads> factors;
  SharedArray<StagedRow<kType>, kProductWarps * kScaledBlocks * 32> rows;  // [warp][block][row]
  // Bounds of the Euclidean norms of 32 rows and of 16 tokens in a block: the product of the norms
  // is a bound of a block's product.
  SharedArray<float, kProductWarps * kScaledBlocks> row_bounds;  // [warp][block]
  SharedArray<float, 2 * kProductThreads / 8> token_bounds;      // [stage][block][16 tokens]
};

// Column `column` of run `run` of eight tokens is this token of the stage's. Two columns that lie
// in one lane are a pair of tokens, and the eight of a run lie in different banks.
HEARTH_DEVICE constexpr std::uint32_t token_of(std::uint32_t run, std::uint32_t column) {
  const std::uint32_t odd = column % 2;
  return 16 * (run / 2) + 8 * odd + ((4 * (run % 2) + column / 2) ^ (4 * odd));
}

// What this thread stages: block `block` of the stage, pair `pair`, tokens `tokens` of the stage's.
struct StagedPair {
  std::uint32_t block;
  std::uint32_t pair;
  std::uint32_t tokens[2];
};
template <std::uint32_t kTokens>
HEARTH_DEVICE StagedPair staged_pair() {
  constexpr std::uint32_t groups = kTokens / 16;
  const std::uint32_t thread = reread_thread_index();
  const std::uint32_t lane = thread % 32;
  const std::uint32_t warp = thread / 32;
  const std::uint32_t group = warp % groups;
  const std::uint32_t y = lane % 8;
  return {
      4 * (warp / groups) + lane / 8, 8 * group + y, {16 * group + y, 16 * group + 8 + (y ^ 4U)}};
}

// Blocks from `first` on and tokens from `token` on. Tokens that are not there, and blocks from
// `end` on, are zero.
struct Stage {
  std::uint32_t number;  // 0 or 1
  std::uint32_t first;
  std::uint32_t end;
  std::uint32_t token;
};

// Sends the values of a stage on their way.
template <WeightType kType, std::uint32_t kTokens>
HEARTH_DEVICE void begin_stage(const ProductArgs& args, const Stage& stage,
                               TensorShared<kType>& shared) {
  const Global<const Words4> values = args.values.as<const Words4>();
  const StagedPair mine = staged_pair<kTokens>();
  const std::uint32_t block = stage.first + mine.block;
  HEARTH_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const std::uint32_t low =
        stage.number * kStageValues + 2 * mine.block * kTokens + mine.tokens[i];
    const std::uint32_t token = stage.token + mine.tokens[i];
    if (token < args.tokens && block < stage.end) {
      const std::size_t at = std::size_t{token} * args.blocks + block;
      copy_async(shared.values, low, values, 2 * at);
      copy_async(shared.values, low + kTokens, values, 2 * at + 1);
    } else {
      shared.values.put(low, Words4{});
      shared.values.put(low + kTokens, Words4{});
    }
  }
  copy_commit();
}

// A bound of the square root of a sum of squares of 32 quants: the lower one of two tangents, which
// is within a tenth of it from 90 to 480.
HEARTH_DEVICE float norm_bound(std::uint32_t squares) {
  const auto value = static_cast<float>(static_cast<std::int32_t>(squares));
  const auto tangent = [&](float at) { return std::fma(value, 0.5F / at, 0.5F * at); };
  return std::fmin(tangent(140.0F), tangent(312.0F));
}

// Waits for them and stages the rest; after a barrier the stage can be read. The rest is loaded
// only here, since registers are what the computation before it needs most.
template <WeightType kType, std::uint32_t kTokens>
HEARTH_DEVICE void end_stage(const ProductArgs& args, const Stage& stage,
                             TensorShared<kType>& shared) {
  constexpr bool two_scales = Record<kType>::kTwoScales;
  const StagedPair mine = staged_pair<kTokens>();
  const std::uint32_t block = stage.first + mine.block;
  float scales[2] = {};
  std::uint32_t extras[2] = {};
  HEARTH_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const std::uint32_t token = stage.token + mine.tokens[i];
    if (token < args.tokens && block < stage.end) {
      const std::size_t at = std::size_t{token} * args.blocks + block;
      scales[i] = args.scales.get(at);
      if constexpr (!two_scales) extras[i] = extra_of<kType>(args, at);
    }
  }
  copy_wait<0>();
  float most = 0.0F;
  HEARTH_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const std::uint32_t at =
        stage.number * kStageValues + 2 * mine.block * kTokens + mine.tokens[i];
    const Words4 low = shared.values.get(at);
    const Words4 high = shared.values.get(at + kTokens);
    if constexpr (two_scales && !kWithoutZero<kType>) extras[i] = half_sums(low, high);
    std::int32_t squares = 0;
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      squares = dot_signed(low.at[k], low.at[k], squares);
      squares = dot_signed(high.at[k], high.at[k], squares);
    }
    most = std::fmax(most, scales[i] * norm_bound(static_cast<std::uint32_t>(squares)));
  }
  shared.factors.put(stage.number * kProductThreads + mine.block * (kTokens / 2) + mine.pair,
                     Words4{{std::bit_cast<std::uint32_t>(scales[0]), extras[0],
                             std::bit_cast<std::uint32_t>(scales[1]), extras[1]}});
  HEARTH_UNROLL
  for (unsigned mask = 1; mask < 8; mask *= 2) most = std::fmax(most, shuffle_xor(most, mask));
  const std::uint32_t at = mine.block * (kTokens / 16) + mine.pair / 8;
  if (mine.pair % 8 == 0) shared.token_bounds.put(stage.number * (kProductThreads / 8) + at, most);
}

// The weights of a warp: a tile of 32 rows.
struct WarpRows {
  Global<const std::byte> tiles;  // the tile's first record
  std::uint32_t end;              // of the blocks that are read; 0 where there is no such tile

  template <WeightType kType>
  HEARTH_DEVICE Global<const std::byte> record(std::uint32_t block) const {
    constexpr std::uint32_t bytes = kTileRows * Record<kType>::kBytes;
    return tiles.at(std::size_t{block / Record<kType>::kLayout.blocks} * bytes);
  }
};
HEARTH_DEVICE WarpRows warp_rows(const ProductArgs& args, const ProductMatrix& matrix,
                                 std::uint32_t row_tile, std::uint32_t end) {
  const bool there = row_tile < matrix.row_tiles;
  const std::size_t first = there ? std::size_t{row_tile} * args.records * args.tile_bytes : 0;
  return {matrix.tiles.at(first), there ? end : 0};
}

// The words with the scales of four blocks, of this lane's row.
template <WeightType kType>
struct ScaleWords {
  static constexpr bool kSuper = Record<kType>::kLayout.blocks == 8;
  static constexpr std::uint32_t kCount = kSuper ? scale_words(kType) + 1 : kScaledBlocks;
  static constexpr std::uint32_t kRecords = kSuper ? 1 : kScaledBlocks;
  std::uint32_t words[kCount];
  std::int32_t exponent;  // of the row

  HEARTH_DEVICE std::uint32_t scale_word(std::uint32_t i) const { return words[i]; }
  HEARTH_DEVICE std::uint32_t d_word() const { return words[kCount - 1]; }
};

// Loads those of the blocks from `first` on, which lie in one super-block where the type has them.
template <WeightType kType>
HEARTH_DEVICE void load_scales(const ProductMatrix& matrix, std::uint32_t row_tile,
                               const WarpRows& from, std::uint32_t first, ScaleWords<kType>& out) {
  using R = Record<kType>;
  const std::uint32_t lane = reread_thread_index() % 32;
  const auto word = [&](Global<const std::byte> tile, std::uint32_t w) {
    const Global<const std::byte> at = tile.at(word_offset(R::kBytes, w, lane));
    if (w * 4 + 4 <= R::kBytes) return at.template as<const std::uint32_t>().get(0);
    return std::uint32_t{at.template as<const std::uint16_t>().get(0)};
  };
  constexpr std::uint32_t first_word = ScaleWords<kType>::kSuper ? R::kPlaces.scales : R::kPlaces.d;
  constexpr std::uint32_t words = ScaleWords<kType>::kCount / ScaleWords<kType>::kRecords;
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i < ScaleWords<kType>::kRecords; ++i) {
    const bool there = first + i < from.end;
    const Global<const std::byte> tile = from.record<kType>(there ? first + i : 0);
    HEARTH_UNROLL
    for (std::uint32_t w = 0; w < words; ++w) {
      out.words[i * words + w] = there ? word(tile, first_word + w) : 0;
    }
  }
  out.exponent = from.end == 0 ? 0 : matrix.exponents.get(row_tile * kTileRows + lane);
}

// A bound of the Euclidean norm of a row's weights in a block. With a minimum a weight is seen as
// the distance of its quant from the middle one, and the middle one's weight.
template <WeightType kType>
HEARTH_DEVICE float row_bound(const BlockScales& scales) {
  using R = Record<kType>;
  constexpr float root = 5.65686F;  // above that of 32
  constexpr float middle = static_cast<float>((1 << R::kLayout.bits) - 1) / 2.0F;
  constexpr float farthest = R::kSigned ? 128.0F : static_cast<float>(R::kZero);
  float most = 0.0F;
  HEARTH_UNROLL
  for (unsigned r = 0; r < (R::kTwoScales ? 2 : 1); ++r) {
    const float d = scales.d * static_cast<float>(scales.s[r]);
    if constexpr (R::kLayout.minimum) {
      const float m = R::kTwoScales ? scales.m * static_cast<float>(scales.t[r]) : scales.m;
      most = std::fmax(most, std::fabs(d) * middle + std::fabs(d * middle + m));
    } else {
      most = std::fmax(most, std::fabs(d) * farthest);
    }
  }
  return most * root;
}

HEARTH_DEVICE void put_row(RowScales& out, const BlockScales& in, std::uint32_t packed,
                           bool two_scales) {
  out = {in.d, two_scales ? packed : std::bit_cast<std::uint32_t>(in.m)};
}
HEARTH_DEVICE void put_row(RowScalesTwo& out, const BlockScales& in, std::uint32_t packed, bool) {
  out = {in.d, in.m, packed, 0};
}

// Turns the scales of one block into numbers: place `place` of the warp's four.
template <WeightType kType>
HEARTH_DEVICE void stage_row(const BlockScales& scales, std::uint32_t thread, std::uint32_t place,
                             TensorShared<kType>& shared) {
  const auto byte = [](std::int32_t v) { return static_cast<std::uint32_t>(v) & 255U; };
  const std::uint32_t at = thread / 32 * kScaledBlocks + place;
  StagedRow<kType> row;
  put_row(row, scales,
          byte(scales.s[0]) | byte(scales.s[1]) << 8 | byte(scales.t[0]) << 16 |
              byte(scales.t[1]) << 24,
          Record<kType>::kTwoScales);
  shared.rows.put(at * 32 + thread % 32, row);
  const std::uint32_t most = warp_max(std::bit_cast<std::uint32_t>(row_bound<kType>(scales)));
  if (thread % 32 == 0) shared.row_bounds.put(at, std::bit_cast<float>(most));
}

// Those of blocks kFirst..+3 of a super-block.
template <WeightType kType, std::uint32_t kFirst>
HEARTH_DEVICE void stage_super_rows(const ScaleWords<kType>& words, float factor,
                                    TensorShared<kType>& shared) {
  const std::uint32_t thread = reread_thread_index();
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i < kScaledBlocks; ++i) {
    stage_row<kType>(scaled(scales_of<kType>(words, kFirst + i), factor), thread, i, shared);
  }
}

// The scales of a block that is a record.
struct SmallScales {
  std::uint32_t d;

  HEARTH_DEVICE std::uint32_t scale_word(std::uint32_t) const { return 0; }
  HEARTH_DEVICE std::uint32_t d_word() const { return d; }
};

// Those of the four blocks from `first` on.
template <WeightType kType>
HEARTH_DEVICE void stage_rows(const ScaleWords<kType>& words, std::uint32_t first,
                              TensorShared<kType>& shared) {
  const float factor = power_of_two(-words.exponent);
  if constexpr (!ScaleWords<kType>::kSuper) {
    const std::uint32_t thread = reread_thread_index();
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i < kScaledBlocks; ++i) {
      const BlockScales scales = scales_of<kType>(SmallScales{words.words[i]}, 0);
      stage_row<kType>(scaled(scales, factor), thread, i, shared);
    }
  } else if (first % 8 < kScaledBlocks) {
    stage_super_rows<kType, 0>(words, factor, shared);
  } else {
    stage_super_rows<kType, kScaledBlocks>(words, factor, shared);
  }
}

// Words of a row's block that hold what a lane hands to mma.sync.
template <WeightType kType>
constexpr std::uint32_t quant_words() {
  constexpr std::uint32_t bits = Record<kType>::kLayout.bits;
  if (bits == 8 || Record<kType>::kLayout.codebook != 0) return 2;
  return (has_nibbles(bits) ? 1U : 0U) + (has_pairs(bits) ? 2U : 0U) +
         (has_singles(bits) ? 1U : 0U);
}

// The words of the rows g, 8 + g, 16 + g and 24 + g of a tile in a block.
template <WeightType kType>
using BlockWords = std::uint32_t[4][quant_words<kType>()];

template <WeightType kType>
HEARTH_DEVICE void load_row_words(Global<const std::byte> tile, std::uint32_t row, std::uint32_t b,
                                  std::uint32_t (&out)[quant_words<kType>()]) {
  using R = Record<kType>;
  constexpr std::uint32_t bits = R::kLayout.bits;
  const std::uint32_t c = thread_index() % 4;
  // The quants of a super-block lie in whole pieces of 16 bytes, so that b need not be known early.
  const auto word = [&](std::uint32_t first, std::uint32_t further) {
    const std::size_t at = R::kLayout.blocks == 8
                               ? std::size_t{first / 4} * 16 * kTileRows + row * 16 + first % 4 * 4
                               : word_offset(R::kBytes, first, row);
    return tile.at(at + 4 * further).template as<const std::uint32_t>().get(0);
  };
  std::uint32_t next = 0;
  if constexpr (bits == 8) {
    out[0] = word(8 * b, c);
    out[1] = word(8 * b + 4, c);
  } else if constexpr (R::kLayout.codebook != 0) {
    const std::uint32_t first = R::kPlaces.nibbles + 4 * b;
    out[0] = word(first, c / 2);
    out[1] = word(first, 2 + c / 2);
  } else if constexpr (has_nibbles(bits)) {
    out[next++] = word(R::kPlaces.nibbles + 4 * b, c);
  }
  if constexpr (has_pairs(bits)) {
    out[next++] = word(R::kPlaces.pairs + 2 * b, 0);
    out[next++] = word(R::kPlaces.pairs + 2 * b + 1, 0);
  }
  if constexpr (has_singles(bits)) out[next++] = word(R::kPlaces.singles + b, 0);
}

// Loads the words of a block. For one that is not there it loads others: its activations are zero.
template <WeightType kType>
HEARTH_DEVICE void load_block(const WarpRows& from, std::uint32_t wanted, BlockWords<kType>& out) {
  const unsigned g = thread_index() % 32 / 4;
  const std::uint32_t block = wanted < from.end ? wanted : 0;
  const Global<const std::byte> tile = from.record<kType>(block);
  HEARTH_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    load_row_words<kType>(tile, 8 * i + g, block % Record<kType>::kLayout.blocks, out[i]);
  }
}

// Quads c and 4 + c of a row's block from its words.
template <WeightType kType>
HEARTH_DEVICE void unpack_row(const std::uint32_t (&words)[quant_words<kType>()],
                              std::uint32_t (&quads)[2]) {
  using R = Record<kType>;
  constexpr std::uint32_t bits = R::kLayout.bits;
  const std::uint32_t c = thread_index() % 4;
  quads[0] = quads[1] = 0;
  std::uint32_t shift = 0;
  std::uint32_t next = 0;
  if constexpr (bits == 8) {
    quads[0] = words[0];
    quads[1] = words[1];
  } else if constexpr (R::kLayout.codebook != 0) {
    quads[0] = look_up(words[0] >> (c % 2 * 16));
    quads[1] = look_up(words[1] >> (c % 2 * 16));
  } else if constexpr (has_nibbles(bits)) {
    quads[0] = words[next] & 0x0F0F0F0FU;
    quads[1] = words[next++] >> 4 & 0x0F0F0F0FU;
    shift = 4;
  }
  if constexpr (has_pairs(bits)) {
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
      quads[h] |= (words[next++] >> (2 * c) & 0x03030303U) << shift;
    }
    shift += 2;
  }
  if constexpr (has_singles(bits)) {
    const std::uint32_t singles = words[next] >> c;
    quads[0] |= (singles & 0x01010101U) << shift;
    quads[1] |= (singles >> 4 & 0x01010101U) << shift;
  }
  if constexpr (kWithoutZero<kType>) {
    constexpr std::uint32_t signs = 0x80808080U;
    constexpr std::uint32_t zeros = static_cast<std::uint32_t>(R::kZero) * 0x01010101U;
    HEARTH_UNROLL
    for (std::uint32_t& four : quads) four = ((four | signs) - zeros) ^ signs;
  }
}

// Products of 16 rows of a block with 8 tokens: of the halves where the type has two scales.
template <WeightType kType>
HEARTH_DEVICE void multiply_block(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                  std::int32_t (&low)[4], std::int32_t (&high)[4]) {
  using R = Record<kType>;
  if constexpr (R::kTwoScales) {
    const std::uint32_t first[2] = {a[0], a[1]};
    const std::uint32_t second[2] = {a[2], a[3]};
    if constexpr (kWithoutZero<kType>) {
      multiply_16x8x16(low, first, b[0]);
      multiply_16x8x16(high, second, b[1]);
    } else {
      multiply_16x8x16_unsigned(low, first, b[0]);
      multiply_16x8x16_unsigned(high, second, b[1]);
    }
  } else if constexpr (R::kSigned) {
    multiply_16x8x32(low, a, b);
  } else {
    multiply_16x8x32_unsigned(low, a, b);
  }
}

// CANONICAL.md's p of one block, a row and a token, as grid_steps has it before it rounds.
template <WeightType kType>
HEARTH_DEVICE float block_value(const std::int32_t (&dots)[2], const StagedRow<kType>& row,
                                float scale, std::uint32_t extra) {
  using R = Record<kType>;
  const float unit = row.d * scale;
  if constexpr (R::kTwoScales) {
    std::uint32_t packed = 0;
    if constexpr (R::kLayout.minimum) {
      packed = row.packed;
    } else {
      packed = row.other;
    }
    static_assert(R::kZero == 0 || kWithoutZero<kType>);
    const std::int32_t dot = static_cast<std::int8_t>(packed & 255U) * dots[0] +
                             static_cast<std::int8_t>(packed >> 8 & 255U) * dots[1];
    if constexpr (R::kLayout.minimum) {
      const std::int32_t sums[2] = {half_sum(extra, 0), half_sum(extra, 1)};
      const float low =
          static_cast<float>(static_cast<std::int32_t>(packed >> 16 & 255U) * sums[0] +
                             static_cast<std::int32_t>(packed >> 24) * sums[1]);
      return std::fma(unit, static_cast<float>(dot), row.m * (scale * low));
    } else {
      return unit * static_cast<float>(dot);
    }
  } else if constexpr (R::kLayout.minimum) {
    const float offset = std::bit_cast<float>(row.other) * std::bit_cast<float>(extra);
    return std::fma(unit, static_cast<float>(dots[0]), offset);
  } else {
    const std::int32_t dot = dots[0] - R::kZero * static_cast<std::int32_t>(extra);
    return unit * static_cast<float>(dot);
  }
}

// The sums of a warp's 32 rows and 32 tokens: [16 rows][run of 8 tokens][as mma.sync has them].
// Each block leaves kRounderBits in them: the fast rounding cannot but do so, the other adds them.
struct SideSums {
  std::uint32_t at[2][kSideTokens / 8][4];

  HEARTH_DEVICE void add_to_all(std::uint32_t value) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 2 * (kSideTokens / 8) * 4; ++i) {
      at[i / (kSideTokens / 2)][i / 4 % (kSideTokens / 8)][i % 4] += value;
    }
  }
};

// The grid steps of p with kRounderBits. kFast: |p| is at most 2^22.
template <bool kFast>
HEARTH_DEVICE std::uint32_t steps_of(float p) {
  if constexpr (kFast) return std::bit_cast<std::uint32_t>(p + kRounder);
  return static_cast<std::uint32_t>(round_even(p)) + kRounderBits;
}

// Whether a warp loads the words of a block while it computes the one before. With two scales, the
// registers are not enough for that, and a block takes so long that other warps fill the wait.
template <WeightType kType>
inline constexpr bool kLoadsAhead = !Record<kType>::kTwoScales;

// A block of a warp: its fragments, and the places of the rest in shared memory.
struct WarpBlock {
  std::uint32_t a[2][4];
  std::uint32_t rows;     // of row g
  std::uint32_t values;   // of the 16 bytes that this lane names for load_fragments
  std::uint32_t factors;  // of the lane's first pair of tokens
};

// Adds the products of a block. `load_next` loads the words of the next one; it is called where
// that keeps the fewest registers.
template <WeightType kType, bool kFast, typename LoadNext>
HEARTH_DEVICE void add_block(TensorShared<kType>& shared, const WarpBlock& block,
                             LoadNext&& load_next, SideSums& sums) {
  // Rows of three numbers are loaded again for each run, others are kept.
  constexpr bool keep_rows = sizeof(StagedRow<kType>) == 8;
  constexpr unsigned load_at = quant_words<kType>() == 1 ? 0 : kSideTokens / 8 - 1;
  StagedRow<kType> rows[4];
  HEARTH_UNROLL
  for (unsigned i = 0; i < 4 && keep_rows; ++i) rows[i] = shared.rows.get(block.rows + 8 * i);
  std::uint32_t right[2][2];  // of two runs
  HEARTH_UNROLL
  for (unsigned n = 0; n < kSideTokens / 8; ++n) {
    if (n % 2 == 0) {
      std::uint32_t words[4];
      load_fragments(shared.values, block.values + 8 * n, words);
      HEARTH_UNROLL
      for (unsigned k = 0; k < 4; ++k) right[k / 2][k % 2] = words[k];
    }
    const Words4 factors = shared.factors.get(block.factors + 4 * n);
    HEARTH_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      // Keeps the compiler from computing several runs at a time, which takes too many registers.
      if (Record<kType>::kTwoScales) sync_warp();
      if (half == 1 && n == load_at && kLoadsAhead<kType>) load_next();
      std::int32_t low[4] = {};
      std::int32_t high[4] = {};
      multiply_block<kType>(block.a[half], right[n % 2], low, high);
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = 2 * half + i / 2;
        if (!keep_rows) rows[row] = shared.rows.get(block.rows + 8 * row);
        const std::int32_t dots[2] = {low[i], high[i]};
        const float scale = std::bit_cast<float>(factors.at[i % 2 * 2]);
        const std::uint32_t extra = factors.at[i % 2 * 2 + 1];
        sums.at[half][n][i] += steps_of<kFast>(block_value<kType>(dots, rows[row], scale, extra));
      }
    }
  }
}

// A warp's part of a stage: some blocks, of which `first` is the first in the row of weights,
// `staged` in the stage and `prepared` in shared.rows; tokens `side` * 32 on of the stage's. The
// warp's next part begins kSkip blocks after this one's end.
struct WarpPart {
  std::uint32_t first;
  std::uint32_t staged;
  std::uint32_t prepared;
  std::uint32_t side;
};

// Of which blocks of the part |p| is at most 2^22 in all products: a bit a block.
template <WeightType kType, std::uint32_t kTokens, std::uint32_t kCount>
HEARTH_DEVICE std::uint32_t fits_rounder(const TensorShared<kType>& shared, const WarpPart& part,
                                         std::uint32_t stage) {
  const std::uint32_t k = reread_thread_index() % kCount;
  const std::uint32_t at =
      stage * (kProductThreads / 8) + (part.staged + k) * (kTokens / 16) + 2 * part.side;
  const float tokens = std::fmax(shared.token_bounds.get(at), shared.token_bounds.get(at + 1));
  // The roundings of the bound and of p are far below the 512th between this and 2^22.
  return warp_ballot(shared.row_bounds.get(part.prepared + k) * tokens < 0x1.FFp+21F);
}

// Adds a part of kCount blocks. `words`: of its first block; in the end of the next part's.
template <WeightType kType, std::uint32_t kTokens, std::uint32_t kCount, std::uint32_t kSkip>
HEARTH_DEVICE void add_part(TensorShared<kType>& shared, const WarpRows& from, const WarpPart& part,
                            std::uint32_t stage, BlockWords<kType>& words, SideSums& sums) {
  const std::uint32_t fast = fits_rounder<kType, kTokens, kCount>(shared, part, stage);
  const std::uint32_t lane = reread_thread_index() % 32;
  WarpBlock block;
  block.rows = part.prepared * 32 + lane / 4;
  // The lane's group of load_fragments is a half of the even run (lanes to 15) or the odd one.
  block.values = stage * kStageValues + (2 * part.staged + lane / 8 % 2) * kTokens +
                 part.side * kSideTokens + token_of(lane / 16, lane % 8);
  block.factors = stage * kProductThreads + part.staged * (kTokens / 2) +
                  part.side * (kSideTokens / 2) + lane % 4;
  HEARTH_ROLL
  for (std::uint32_t k = 0; k < kCount; ++k) {
    if (!kLoadsAhead<kType>) load_block<kType>(from, part.first + k, words);
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      std::uint32_t quads[2];
      unpack_row<kType>(words[i], quads);
      block.a[i / 2][i % 2] = quads[0];
      block.a[i / 2][2 + i % 2] = quads[1];
    }
    const std::uint32_t next = part.first + k + 1 + (k + 1 < kCount ? 0 : kSkip);
    const auto load_next = [&] { load_block<kType>(from, next, words); };
    if ((fast >> k & 1U) != 0) {
      add_block<kType, true>(shared, block, load_next, sums);
    } else {
      add_block<kType, false>(shared, block, load_next, sums);
    }
    block.rows += 32;
    block.values += 2 * kTokens;
    block.factors += kTokens / 2;
  }
}

}  // namespace hearth::kernels::cuda
