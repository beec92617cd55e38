// A lane's record of a tile (tiles.h): loading it and taking it apart. Everything is unrolled, so
// that a record lives in registers.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/tiles.h"
#include "kernels/elementary.h"

namespace hearth::kernels::cuda {

template <WeightType kType>
struct Record {
  static constexpr WeightLayout kLayout = layout_of(kType);
  static constexpr RecordLayout kPlaces = record_layout_of(kType);
  static constexpr bool kTwoScales = kLayout.form == BlockForm::kTwoScales;
  static constexpr bool kFloating = kLayout.form == BlockForm::kFloat;
  static constexpr std::uint32_t kBytes = kLayout.file_bytes;
  static constexpr std::uint32_t kWords = record_words(kType);
  // The offset with which a quant is stored. Bytes and codebook values are signed and have none.
  static constexpr bool kSigned = kLayout.codebook != 0 || kLayout.bits == 8;
  static constexpr std::int32_t kZero = kSigned ? 0 : kLayout.zero;

  HEARTH_DEVICE std::uint32_t scale_word(std::uint32_t i) const {
    return words[kPlaces.scales + i];
  }
  HEARTH_DEVICE std::uint32_t d_word() const { return words[kPlaces.d]; }

  std::uint32_t words[kWords];
};

// The record of `lane` in a tile. `kOnce`: it is not read again soon.
template <WeightType kType, bool kOnce>
HEARTH_DEVICE void load_record(Global<const std::byte> tile, std::uint32_t lane,
                               Record<kType>& out) {
  constexpr std::uint32_t bytes = Record<kType>::kBytes;
  constexpr std::uint32_t whole = bytes / 16 * 4;
  const Global<const Words4> wide = tile.as<const Words4>();
  HEARTH_UNROLL
  for (std::uint32_t w = 0; w < whole; w += 4) {
    const std::size_t at = word_offset(bytes, w, 0) / 16 + lane;
    const Words4 four = kOnce ? wide.get_once(at) : wide.get(at);
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) out.words[w + i] = four.at[i];
  }
  HEARTH_UNROLL
  for (std::uint32_t w = whole; w < bytes / 4; ++w) {
    const auto word = tile.at(word_offset(bytes, w, lane)).as<const std::uint32_t>();
    out.words[w] = kOnce ? word.get_once(0) : word.get(0);
  }
  if constexpr (bytes % 4 != 0) {
    constexpr std::uint32_t last = Record<kType>::kWords - 1;
    const auto half = tile.at(word_offset(bytes, last, lane)).as<const std::uint16_t>();
    out.words[last] = kOnce ? half.get_once(0) : half.get(0);
  }
}

// Four indices of 4 bits, in the low half, to four bytes of the codebook.
HEARTH_DEVICE std::uint32_t look_up(std::uint32_t indices) {
  constexpr auto word = [](int first) {
    std::uint32_t four = 0;
    for (int i = 3; i >= 0; --i) {
      four = four << 8 | static_cast<std::uint8_t>(kCodebook[first + i]);
    }
    return four;
  };
  constexpr std::uint32_t w0 = word(0);
  constexpr std::uint32_t w1 = word(4);
  constexpr std::uint32_t w2 = word(8);
  constexpr std::uint32_t w3 = word(12);
  const std::uint32_t within = indices & 0x7777U;
  const std::uint32_t low = pick_bytes(w0, w1, within);
  const std::uint32_t high = pick_bytes(w2, w3, within);
  return pick_bytes(low, high, 0x3210U | (indices >> 1 & 0x4444U));
}

// The 32 stored quants of block b, four columns a word: unsigned bytes, or signed ones where
// Record::kSigned says so.
template <WeightType kType>
HEARTH_DEVICE void quads_of(const Record<kType>& record, std::uint32_t b,
                            std::uint32_t (&quads)[8]) {
  using R = Record<kType>;
  constexpr std::uint32_t bits = R::kLayout.bits;
  HEARTH_UNROLL
  for (std::uint32_t g = 0; g < 8; ++g) {
    std::uint32_t four = 0;
    std::uint32_t shift = 0;
    if constexpr (bits == 8) {
      four = record.words[8 * b + g];
    } else if constexpr (R::kLayout.codebook != 0) {
      four = look_up(record.words[R::kPlaces.nibbles + 4 * b + g / 2] >> (g % 2 * 16));
    } else if constexpr (has_nibbles(bits)) {
      four = record.words[R::kPlaces.nibbles + 4 * b + g % 4] >> (g / 4 * 4) & 0x0F0F0F0FU;
      shift = 4;
    }
    if constexpr (has_pairs(bits)) {
      const std::uint32_t pairs = record.words[R::kPlaces.pairs + 2 * b + g / 4];
      four |= (pairs >> (g % 4 * 2) & 0x03030303U) << shift;
      shift += 2;
    }
    if constexpr (has_singles(bits)) {
      four |= (record.words[R::kPlaces.singles + b] >> g & 0x01010101U) << shift;
    }
    quads[g] = four;
  }
}

// D, M and the integer scales of block b, as CANONICAL.md names them.
struct BlockScales {
  float d = 0.0F;
  float m = 0.0F;
  std::int32_t s[2] = {1, 1};
  std::int32_t t[2] = {0, 0};
};

// `record`: what has scale_word and d_word, a Record or the part of one.
template <typename Scales>
HEARTH_DEVICE std::uint32_t scale_byte(const Scales& record, std::uint32_t i) {
  return record.scale_word(i / 4) >> (8 * (i % 4)) & 255U;
}

// The 6-bit pairs of Q4_K and Q5_K.
template <typename Scales>
HEARTH_DEVICE void six_bit_scales(const Scales& record, std::uint32_t b, float& scale,
                                  float& minimum) {
  std::uint32_t s = 0;
  std::uint32_t t = 0;
  if (b < 4) {
    s = scale_byte(record, b) & 63U;
    t = scale_byte(record, b + 4) & 63U;
  } else {
    const std::uint32_t mixed = scale_byte(record, b + 4);
    s = (mixed & 15U) | scale_byte(record, b - 4) >> 6 << 4;
    t = mixed >> 4 | scale_byte(record, b) >> 6 << 4;
  }
  scale = static_cast<float>(s);
  minimum = static_cast<float>(t);
}

template <WeightType kType, typename Scales>
HEARTH_DEVICE void two_scales(const Scales& record, std::uint32_t b, BlockScales& out) {
  HEARTH_UNROLL
  for (std::uint32_t r = 0; r < 2; ++r) {
    const std::uint32_t e = 2 * b + r;
    if constexpr (kType == WeightType::kQ2_K) {
      const std::uint32_t both = scale_byte(record, e);
      out.s[r] = static_cast<std::int32_t>(both & 15U);
      out.t[r] = static_cast<std::int32_t>(both >> 4);
    } else if constexpr (kType == WeightType::kQ3_K) {
      const std::uint32_t low =
          e < 8 ? scale_byte(record, e) & 15U : scale_byte(record, e - 8) >> 4;
      const std::uint32_t high = scale_byte(record, 8 + e % 4) >> (e / 4 * 2) & 3U;
      out.s[r] = static_cast<std::int32_t>(low | high << 4) - 32;
    } else {
      out.s[r] = static_cast<std::int8_t>(scale_byte(record, e));
    }
  }
}

template <WeightType kType, typename Scales>
HEARTH_DEVICE BlockScales scales_of(const Scales& record, std::uint32_t b) {
  using R = Record<kType>;
  BlockScales out;
  const std::uint32_t halves = record.d_word();
  out.d = widen_half(static_cast<std::uint16_t>(halves & 0xFFFFU));
  if constexpr (R::kLayout.minimum) out.m = widen_half(static_cast<std::uint16_t>(halves >> 16));
  if constexpr (R::kTwoScales) {
    two_scales<kType>(record, b, out);
    out.m = -out.m;
  } else if constexpr (kType == WeightType::kIQ4_XS) {
    const std::uint32_t low = scale_byte(record, b / 2) >> (b % 2 * 4) & 15U;
    const std::uint32_t high = halves >> (16 + 2 * b) & 3U;
    out.d *= static_cast<float>(static_cast<std::int32_t>(low | high << 4) - 32);
  } else if constexpr (R::kLayout.minimum && R::kLayout.blocks == 8) {
    float scale = 0.0F;
    float minimum = 0.0F;
    six_bit_scales(record, b, scale, minimum);
    out.d *= scale;
    out.m = -(out.m * minimum);
  }
  return out;
}

// With D and M times the row's factor, as every product needs them.
HEARTH_DEVICE BlockScales scaled(BlockScales scales, float row_factor) {
  scales.d *= row_factor;
  scales.m *= row_factor;
  return scales;
}

// Weight k of a floating record, widened.
template <WeightType kType>
HEARTH_DEVICE float weight_of(const Record<kType>& record, std::uint32_t k) {
  if constexpr (kType == WeightType::kF32) {
    return std::bit_cast<float>(record.words[k]);
  } else {
    const std::uint32_t half = record.words[k / 2] >> (k % 2 * 16) & 0xFFFFU;
    if constexpr (kType == WeightType::kF16) return widen_half(static_cast<std::uint16_t>(half));
    return std::bit_cast<float>(half << 16);
  }
}

// Byte i of four, signed, as a float: through the mantissa of 2^23, which conversions are slower
// than.
HEARTH_DEVICE float byte_value(std::uint32_t four, std::uint32_t i) {
  const std::uint32_t bits = pick_bytes(four ^ 0x80808080U, 0x4B000000U, 0x7440U | i);
  return std::bit_cast<float>(bits) - 0x1.0001p+23F;  // 2^23 + 128
}

}  // namespace hearth::kernels::cuda
