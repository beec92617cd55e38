#include <immintrin.h>

#include <cstring>

#include "kernels/file_block.h"
#include "kernels/matrix_view.h"
#include "kernels/pack_group.h"

namespace hearth::kernels {
namespace {

__m256i load32(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

void store32(std::byte* at, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), value);
}

// `mask` of every byte after a shift to the right.
__m256i bits_of(__m256i bytes, std::uint32_t shift, int mask) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  return _mm256_and_si256(_mm256_srl_epi16(bytes, count),
                          _mm256_set1_epi8(static_cast<char>(mask)));
}

// 16 bytes of nibbles: column k low in byte k, column k + 16 high in it.
__m256i split_nibbles(const std::byte* at) {
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return bits_of(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), 0, 15);
}

// Bit k of 32 as bit 4 of byte k.
__m256i fifth_bits(const std::byte* at) {
  std::int32_t bits = 0;
  std::memcpy(&bits, at, 4);
  const __m256i bytes = _mm256_shuffle_epi8(
      _mm256_set1_epi32(bits), _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202,
                                                 0x0101010101010101, 0x0000000000000000));
  const __m256i one_each = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one_each), one_each);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

// Quants of block `b` of a row's super-block as they are stored, column k in byte k.
template <WeightType type>
__m256i quants_of(const std::byte* file, std::uint32_t b) {
  using enum WeightType;
  const std::uint32_t half = b / 4;
  const std::uint32_t c = b % 4;
  if constexpr (type == kQ8_0) return _mm256_xor_si256(load32(file + 2), _mm256_set1_epi8(-128));
  if constexpr (type == kQ4_0 || type == kIQ4_NL) return split_nibbles(file + 2);
  if constexpr (type == kQ4_1) return split_nibbles(file + 4);
  if constexpr (type == kQ5_0) {
    return _mm256_or_si256(split_nibbles(file + 6), fifth_bits(file + 2));
  }
  if constexpr (type == kQ5_1) {
    return _mm256_or_si256(split_nibbles(file + 8), fifth_bits(file + 4));
  }
  if constexpr (type == kQ4_K) return bits_of(load32(file + 16 + b / 2 * 32), b % 2 * 4, 15);
  if constexpr (type == kQ5_K) {
    const __m256i low = bits_of(load32(file + 48 + b / 2 * 32), b % 2 * 4, 15);
    return _mm256_or_si256(low, _mm256_slli_epi16(bits_of(load32(file + 16), b, 1), 4));
  }
  if constexpr (type == kQ2_K) return bits_of(load32(file + 16 + half * 32), c * 2, 3);
  if constexpr (type == kQ3_K) {
    const __m256i low = bits_of(load32(file + 32 + half * 32), c * 2, 3);
    return _mm256_or_si256(low, _mm256_slli_epi16(bits_of(load32(file), b, 1), 2));
  }
  if constexpr (type == kQ6_K) {
    const __m256i low = bits_of(load32(file + 64 * half + 32 * (c % 2)), c / 2 * 4, 15);
    const __m256i high = bits_of(load32(file + 128 + 32 * half), 2 * c, 3);
    return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
  }
  if constexpr (type == kMXFP4) return split_nibbles(file + 1);
  if constexpr (type == kTQ2_0) return bits_of(load32(file + half * 32), c * 2, 3);
  if constexpr (type >= kIQ2_XXS) {  // by entries of a grid, and TQ1_0
    const FileBlock block = read_file_block(type, file, b);
    return load32(reinterpret_cast<const std::byte*>(block.quads));
  }
  return split_nibbles(file + 8 + 16 * b);  // IQ4_XS
}

// Sums of |q| over eight columns each.
template <WeightType type>
__m256i magnitudes(__m256i quants) {
  constexpr WeightLayout layout = layout_of(type);
  if constexpr (layout.codebook != 0) {
    constexpr const std::int8_t* values = codebook_of(type);
    alignas(16) std::int8_t table[16];
    for (int i = 0; i < 16; ++i) {
      table[i] = static_cast<std::int8_t>(values[i] < 0 ? -values[i] : values[i]);
    }
    const __m128i half = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
    quants = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), quants);
  }
  return _mm256_sad_epu8(quants, _mm256_set1_epi8(static_cast<char>(layout.zero)));
}

// The row's words of all planes, lowest first (matrix_view.h), at `words`.
template <int bits>
void place_words(__m256i quants, std::uint32_t* words) {
  if constexpr (bits == 8) {
    store32(reinterpret_cast<std::byte*>(words), quants);
    return;
  }
  std::uint32_t at = 0;
  if constexpr (bits >= 4) {
    const __m256i nibbles = bits_of(quants, 0, 15);
    const __m128i high = _mm_slli_epi16(_mm256_extracti128_si256(nibbles, 1), 4);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words),
                     _mm_or_si128(_mm256_castsi256_si128(nibbles), high));
    at = 4;
  }
  if constexpr (bits == 2 || bits == 3 || bits == 6) {
    // Word g of a half, moved up by 2 g, and the four joined.
    __m256i pairs = bits_of(quants, bits == 6 ? 4 : 0, 3);
    pairs = _mm256_sllv_epi32(pairs, _mm256_set_epi32(6, 4, 2, 0, 6, 4, 2, 0));
    pairs = _mm256_or_si256(pairs, _mm256_shuffle_epi32(pairs, 0x4E));
    pairs = _mm256_or_si256(pairs, _mm256_shuffle_epi32(pairs, 0xB1));
    words[at] = static_cast<std::uint32_t>(_mm256_extract_epi32(pairs, 0));
    words[at + 1] = static_cast<std::uint32_t>(_mm256_extract_epi32(pairs, 4));
    at += 2;
  }
  if constexpr (bits == 3 || bits == 5) {
    __m256i singles = bits_of(quants, bits - 1, 1);
    singles = _mm256_sllv_epi32(singles, _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    __m128i joined =
        _mm_or_si128(_mm256_castsi256_si128(singles), _mm256_extracti128_si256(singles, 1));
    joined = _mm_or_si128(joined, _mm_shuffle_epi32(joined, 0x4E));
    joined = _mm_or_si128(joined, _mm_shuffle_epi32(joined, 0xB1));
    words[at] = static_cast<std::uint32_t>(_mm_cvtsi128_si32(joined));
  }
}

// Column i of eight rows of eight words becomes row i.
void transpose(__m256i rows[8]) {
  __m256i a[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  __m256i b[8];
  for (int half = 0; half < 2; ++half) {
    const __m256i* from = a + 4 * half;
    b[4 * half] = _mm256_unpacklo_epi64(from[0], from[2]);
    b[4 * half + 1] = _mm256_unpackhi_epi64(from[0], from[2]);
    b[4 * half + 2] = _mm256_unpacklo_epi64(from[1], from[3]);
    b[4 * half + 3] = _mm256_unpackhi_epi64(from[1], from[3]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2x128_si256(b[i], b[4 + i], 0x20);
    rows[4 + i] = _mm256_permute2x128_si256(b[i], b[4 + i], 0x31);
  }
}

std::uint32_t magnitude_of(std::uint8_t scale) {
  const int value = static_cast<std::int8_t>(scale);
  return static_cast<std::uint32_t>(value < 0 ? -value : value);
}

struct Shares {  // of each row in a super-block: its |weights| are d * scaled + m * minimum
  std::uint32_t scaled[kRowGroup];
  std::uint32_t minimum[kRowGroup];
};

template <WeightType type>
void add_share(const std::byte* file, std::uint32_t b, std::uint32_t row, __m256i sums,
               std::byte* integers, Shares& shares) {
  constexpr WeightLayout layout = layout_of(type);
  const __m128i low = _mm256_castsi256_si128(sums);
  const __m128i high = _mm256_extracti128_si256(sums, 1);
  const auto total = [](__m128i two) {
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 2));
  };
  if constexpr (layout.integer_bytes == 0) {
    shares.scaled[row] += total(_mm_add_epi64(low, high));
    shares.minimum[row] += kBlock;
    return;
  }
  const BlockScales s = read_block_scales(type, file, b);
  if constexpr (layout.form == BlockForm::kTwoScales) {
    shares.scaled[row] +=
        magnitude_of(s.scales[0]) * total(low) + magnitude_of(s.scales[1]) * total(high);
    shares.minimum[row] += 16U * (s.minimums[0] + s.minimums[1]);
    for (std::uint32_t half = 0; half < 2; ++half) {
      const int upper = layout.minimum ? s.minimums[half] << 4 : 0;
      integers[half * kRowGroup + row] = static_cast<std::byte>(s.scales[half] | upper);
    }
  } else {
    shares.scaled[row] += magnitude_of(s.scales[0]) * total(_mm_add_epi64(low, high));
    shares.minimum[row] += kBlock * s.minimums[0];
    integers[row] = std::byte{s.scales[0]};
    if constexpr (layout.minimum) integers[kRowGroup + row] = std::byte{s.minimums[0]};
  }
}

// Sixteen halves, one a row; false when one is not finite.
template <WeightType type>
bool gather_halves(const std::byte* file, std::size_t row_bytes, std::byte* out) {
  std::uint32_t bad = 0;
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    const std::uint16_t half = read_d(type, file + row * row_bytes);
    std::memcpy(out + row * 2, &half, 2);
    bad |= static_cast<std::uint32_t>((half & 0x7C00U) == 0x7C00U);
  }
  return bad == 0;
}

// Sixteen bytes of powers of two, one a row; false when one is above its limit.
bool gather_powers(const std::byte* file, std::size_t row_bytes, std::byte* out) {
  std::uint32_t largest = 0;
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    out[row] = file[row * row_bytes];
    const auto power = std::to_integer<std::uint32_t>(out[row]);
    largest = power > largest ? power : largest;
  }
  return largest <= kPowerMax;
}

// |half| * factor in units of 2^-24, or of 2^-(24 + fraction): below 2^60 for every share of a
// super-block.
std::uint64_t half_times(const std::byte* halves, std::uint32_t row, std::uint32_t factor) {
  std::uint16_t half = 0;
  std::memcpy(&half, halves + row * 2, 2);
  const std::uint32_t exponent = (half >> 10) & 31U;
  const std::uint32_t mantissa = (half & 1023U) | (exponent != 0 ? 1024U : 0U);
  return (std::uint64_t{mantissa} * factor) << (exponent - (exponent != 0 ? 1U : 0U));
}

template <WeightType type>
bool pack_quants(std::uint32_t cols, const std::byte* file, std::size_t row_bytes,
                 std::byte* packed, RowBound bounds[kRowGroup]) {
  constexpr WeightLayout layout = layout_of(type);
  alignas(32) std::uint32_t words[kRowGroup][8] = {};
  for (std::uint32_t s = 0; s < cols / layout.columns(); ++s, file += layout.file_bytes) {
    const std::byte* halves = packed;
    const auto gather = layout.power ? gather_powers : gather_halves<type>;
    if (!gather(file + layout.d_offset, row_bytes, packed)) return false;
    if (layout.minimum &&
        !gather_halves<type>(file + layout.d_offset + 2, row_bytes, packed + kRowGroup * 2)) {
      return false;
    }
    packed += layout.header_bytes();
    Shares shares{};
    for (std::uint32_t b = 0; b < layout.blocks; ++b) {
      for (std::uint32_t row = 0; row < kRowGroup; ++row) {
        const std::byte* from = file + row * row_bytes;
        const __m256i quants = quants_of<type>(from, b);
        add_share<type>(from, b, row, magnitudes<type>(quants), packed, shares);
        place_words<layout.bits>(quants, words[row]);
      }
      packed += kRowGroup * layout.integer_bytes;
      for (std::uint32_t half = 0; half < 2; ++half) {
        __m256i rows[8];
        for (std::uint32_t i = 0; i < 8; ++i) {
          rows[i] = load32(reinterpret_cast<const std::byte*>(words[half * 8 + i]));
        }
        transpose(rows);
        for (std::uint32_t plane = 0; plane < layout.bits; ++plane) {
          store32(packed + plane * 64 + half * 32, rows[plane]);
        }
      }
      packed += layout.quant_bytes();
    }
    for (std::uint32_t row = 0; row < kRowGroup; ++row) {
      if constexpr (layout.power) {
        const auto power = std::to_integer<std::uint32_t>(halves[row]);
        bounds[row].units += power_units(power, shares.scaled[row]);
        continue;
      }
      std::uint64_t units = half_times(halves, row, shares.scaled[row]);
      if (layout.minimum) units += half_times(halves + kRowGroup * 2, row, shares.minimum[row]);
      bounds[row].units += units;
    }
  }
  return true;
}

// Floating weights: magnitudes compare as the patterns of their bits.
bool pack_words(std::uint32_t cols, const std::byte* file, std::size_t row_bytes, std::byte* packed,
                RowBound bounds[kRowGroup]) {
  __m256i largest[kRowGroup] = {};
  const __m256i no_sign = _mm256_set1_epi32(0x7FFFFFFF);
  for (std::uint32_t k = 0; k < cols; k += 8) {
    for (std::uint32_t half = 0; half < 2; ++half) {
      __m256i rows[8];
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t row = half * 8 + i;
        rows[i] = load32(file + row * row_bytes + k * std::size_t{4});
        largest[row] = _mm256_max_epu32(largest[row], _mm256_and_si256(rows[i], no_sign));
      }
      transpose(rows);
      for (std::uint32_t i = 0; i < 8; ++i) {
        store32(packed + (std::size_t{k} + i) * 64 + half * 32, rows[i]);
      }
    }
  }
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    alignas(32) std::uint32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), largest[row]);
    std::uint32_t bits = 0;
    for (const std::uint32_t lane : lanes) bits = lane > bits ? lane : bits;
    std::memcpy(&bounds[row].largest, &bits, 4);
    if (bits > 0x5F800000U) return false;  // 2^64
  }
  return true;
}

// `above`: the first pattern that is refused. Gives the largest pattern of each row.
bool pack_shorts(std::uint32_t cols, const std::byte* file, std::size_t row_bytes,
                 std::byte* packed, std::uint32_t above, std::uint16_t largest[kRowGroup]) {
  __m256i most[kRowGroup] = {};
  const __m256i no_sign = _mm256_set1_epi16(0x7FFF);
  for (std::uint32_t k = 0; k < cols; k += 16) {
    __m256i low[8];   // columns 0 to 3 and 8 to 11 of two rows each
    __m256i high[8];  // 4 to 7 and 12 to 15
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::byte* at = file + 2 * i * row_bytes + k * std::size_t{2};
      const __m256i first = load32(at);
      const __m256i second = load32(at + row_bytes);
      most[2 * i] = _mm256_max_epu16(most[2 * i], _mm256_and_si256(first, no_sign));
      most[2 * i + 1] = _mm256_max_epu16(most[2 * i + 1], _mm256_and_si256(second, no_sign));
      low[i] = _mm256_unpacklo_epi16(first, second);
      high[i] = _mm256_unpackhi_epi16(first, second);
    }
    transpose(low);
    transpose(high);
    std::byte* out = packed + std::size_t{k} * 32;
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t column = i < 4 ? i : i + 4;
      store32(out + column * 32, low[i]);
      store32(out + (column + 4) * 32, high[i]);
    }
  }
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    alignas(32) std::uint16_t lanes[16];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), most[row]);
    largest[row] = 0;
    for (const std::uint16_t lane : lanes) largest[row] = lane > largest[row] ? lane : largest[row];
    if (largest[row] >= above) return false;
  }
  return true;
}

bool pack_floats(WeightType type, std::uint32_t cols, const std::byte* file, std::size_t row_bytes,
                 std::byte* packed, RowBound bounds[kRowGroup]) {
  if (type == WeightType::kF32) return pack_words(cols, file, row_bytes, packed, bounds);
  const bool brain = type == WeightType::kBF16;
  std::uint16_t largest[kRowGroup];
  if (!pack_shorts(cols, file, row_bytes, packed, brain ? 0x5F81U : 0x7C00U, largest)) return false;
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    const std::uint32_t wide = std::uint32_t{largest[row]} << 16;
    if (brain) {
      std::memcpy(&bounds[row].largest, &wide, 4);
    } else {
      bounds[row].largest = _cvtsh_ss(largest[row]);
    }
  }
  return true;
}

}  // namespace

bool avx2_pack_group(WeightType type, std::uint32_t cols, const std::byte* file,
                     std::size_t row_bytes, std::byte* packed, RowBound bounds[kRowGroup]) {
  using enum WeightType;
  switch (type) {
    case kF32:
    case kF16:
    case kBF16: return pack_floats(type, cols, file, row_bytes, packed, bounds);
    case kQ8_0: return pack_quants<kQ8_0>(cols, file, row_bytes, packed, bounds);
    case kQ4_0: return pack_quants<kQ4_0>(cols, file, row_bytes, packed, bounds);
    case kQ4_1: return pack_quants<kQ4_1>(cols, file, row_bytes, packed, bounds);
    case kQ5_0: return pack_quants<kQ5_0>(cols, file, row_bytes, packed, bounds);
    case kQ5_1: return pack_quants<kQ5_1>(cols, file, row_bytes, packed, bounds);
    case kIQ4_NL: return pack_quants<kIQ4_NL>(cols, file, row_bytes, packed, bounds);
    case kQ2_K: return pack_quants<kQ2_K>(cols, file, row_bytes, packed, bounds);
    case kQ3_K: return pack_quants<kQ3_K>(cols, file, row_bytes, packed, bounds);
    case kQ4_K: return pack_quants<kQ4_K>(cols, file, row_bytes, packed, bounds);
    case kQ5_K: return pack_quants<kQ5_K>(cols, file, row_bytes, packed, bounds);
    case kQ6_K: return pack_quants<kQ6_K>(cols, file, row_bytes, packed, bounds);
    case kIQ4_XS: return pack_quants<kIQ4_XS>(cols, file, row_bytes, packed, bounds);
    case kMXFP4: return pack_quants<kMXFP4>(cols, file, row_bytes, packed, bounds);
    case kIQ2_XXS: return pack_quants<kIQ2_XXS>(cols, file, row_bytes, packed, bounds);
    case kIQ2_XS: return pack_quants<kIQ2_XS>(cols, file, row_bytes, packed, bounds);
    case kIQ2_S: return pack_quants<kIQ2_S>(cols, file, row_bytes, packed, bounds);
    case kIQ3_XXS: return pack_quants<kIQ3_XXS>(cols, file, row_bytes, packed, bounds);
    case kIQ3_S: return pack_quants<kIQ3_S>(cols, file, row_bytes, packed, bounds);
    case kIQ1_S: return pack_quants<kIQ1_S>(cols, file, row_bytes, packed, bounds);
    case kIQ1_M: return pack_quants<kIQ1_M>(cols, file, row_bytes, packed, bounds);
    case kTQ1_0: return pack_quants<kTQ1_0>(cols, file, row_bytes, packed, bounds);
    case kTQ2_0: return pack_quants<kTQ2_0>(cols, file, row_bytes, packed, bounds);
  }
  return false;
}

}  // namespace hearth::kernels
