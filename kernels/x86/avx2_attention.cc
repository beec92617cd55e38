// Attention with maddubs and madd: 8 positions a vector for the scores, 4 dimensions x 4 positions
// a vector for the values.
#include "kernels/simd/kv_entries.h"

namespace hearth::kernels::avx2 {
namespace {

constexpr std::uint32_t kDims = 16;  // of one pass over the values
static_assert(65'536LL / 2 * 255 * kQuantMax < (1LL << 31),
              "byte planes fit 32 bits until flushed");

struct Query {
  std::int8_t values[kHeadDimMax];
  float scales[kBlocksMax];  // with the score scale and log2(e) folded in
};

// One query head's walk over the pages from the one that holds `begin`. scratch: a float a
// position.
struct Walk {
  explicit Walk(const AttentionArgs& a)
      : args(a),
        offsets(page_offsets(a.layout.head_dim)),
        first_page(a.begin / kPageTokens),
        pages((a.end - 1) / kPageTokens + 1 - first_page) {}

  const std::byte* head_page(std::uint32_t page) const {
    return args.pages[first_page + page] + args.kv_head * offsets.head_bytes;
  }
  // Lanes of the 8 positions from octet `octet` on that the query sees.
  __m256i visible(std::uint32_t octet) const {
    const auto start = static_cast<int>(first_page * kPageTokens + octet * 8);
    const __m256i at =
        _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(args.begin)), at);
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(args.end)), at);
    return _mm256_andnot_si256(before, below);
  }

  const AttentionArgs& args;
  PageOffsets offsets;
  std::uint32_t first_page;
  std::uint32_t pages;
  Query query;
  float maximum = 0.0F;
  float largest = 0.0F;
  std::int64_t denominator = 0;
};

inline float largest_float(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  m = _mm_max_ss(m, _mm_movehdup_ps(m));
  return _mm_cvtss_f32(m);
}

void quantize_query(const float* x, const AttentionArgs& args, Query& out) {
  const float factor = args.score_scale * kLog2E;
  for (std::uint32_t b = 0; b < args.layout.head_dim / kBlock; ++b) {
    const Block block = load_block(x + b * kBlock);
    const QuantScales scales = scales_of(largest_of(block));
    store_quantized(block, scales.inverse, out.values + b * kBlock);
    out.scales[b] = scales.scale * factor;
  }
}

// Scores of 8 positions: octet `octet` of the page.
__m256 score_octet(const Walk& walk, const std::byte* page, std::uint32_t octet) {
  const std::uint32_t head_dim = walk.args.layout.head_dim;
  const std::uint32_t half = octet / 2;
  const std::byte* keys = page + std::size_t{half} * head_dim * 16 + (octet % 2) * 32;
  const auto* scales = reinterpret_cast<const float*>(page + walk.offsets.key_scales) +
                       std::size_t{half} * (head_dim / kBlock) * 16 + (octet % 2) * 8;
  __m256 score = _mm256_setzero_ps();
  for (std::uint32_t b = 0; b < head_dim / kBlock; ++b) {
    __m256i dot = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (std::uint32_t g = 0; g < 8; ++g) {
      const __m256i key =
          _mm256_xor_si256(load_256(keys + (b * 8 + g) * 64), _mm256_set1_epi8(-128));
      const __m256i four = broadcast_four(walk.query.values + b * kBlock + g * 4);
      dot = _mm256_add_epi32(dot, add_pairs(signed_pairs(key, four)));
    }
    const __m256 unit =
        _mm256_mul_ps(_mm256_set1_ps(walk.query.scales[b]), _mm256_loadu_ps(scales + b * 16));
    score = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), unit, score);
  }
  return score;
}

void score(Walk& walk) {
  __m256 maxima = _mm256_set1_ps(-__builtin_inff());
  const Softcap cap(walk.args.score_cap * kLog2E);
  for (std::uint32_t octet = 0; octet < walk.pages * 4; ++octet) {
    __m256 scores = score_octet(walk, walk.head_page(octet / 4), octet % 4);
    if (walk.args.score_cap > 0.0F) scores = cap(scores);
    const __m256 seen = _mm256_castsi256_ps(walk.visible(octet));
    maxima = _mm256_blendv_ps(maxima, _mm256_max_ps(maxima, scores), seen);
    _mm256_storeu_ps(walk.args.scratch + octet * 8, scores);
  }
  walk.maximum = largest_float(maxima);
}

// Scores to weights times value scales, in place; the denominator and the largest on the way.
void weigh(Walk& walk) {
  const __m256 maximum = _mm256_set1_ps(walk.maximum);
  __m256 largest = _mm256_setzero_ps();
  __m256i sums = _mm256_setzero_si256();
  for (std::uint32_t octet = 0; octet < walk.pages * 4; ++octet) {
    float* at = walk.args.scratch + octet * 8;
    const auto* scales =
        reinterpret_cast<const float*>(walk.head_page(octet / 4) + walk.offsets.value_scales) +
        (octet % 4) * 8;
    const __m256 seen = _mm256_castsi256_ps(walk.visible(octet));
    const __m256 weight = _mm256_and_ps(seen, exp2_of(_mm256_sub_ps(_mm256_loadu_ps(at), maximum)));
    const __m256i steps = _mm256_cvtps_epi32(_mm256_mul_ps(weight, _mm256_set1_ps(0x1p24F)));
    sums = _mm256_add_epi64(sums, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(steps)));
    sums = _mm256_add_epi64(sums, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(steps, 1)));
    const __m256 scaled = _mm256_and_ps(seen, _mm256_mul_ps(weight, _mm256_loadu_ps(scales)));
    largest = _mm256_max_ps(largest, scaled);
    _mm256_storeu_ps(at, scaled);
  }
  alignas(32) std::int64_t parts[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sums);
  walk.denominator += parts[0] + parts[1] + parts[2] + parts[3];
  walk.largest = largest_float(largest);
}

// 8 + 8 integers in order, as 16-bit ones.
inline __m256i pack_in_order(__m256i a, __m256i b) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
}

// Weights to 16-bit integers, in place: each page's 128 bytes become the low bytes of its positions
// as 16-bit integers, then the high bytes. All zero when the largest counts as zero.
void round_weights(const Walk& walk) {
  const float factor = walk.largest < kTiny ? 0.0F : 65535.0F / walk.largest;
  const __m256 to_integer = _mm256_set1_ps(factor);
  const __m256i low_byte = _mm256_set1_epi32(255);
  for (std::uint32_t page = 0; page < walk.pages; ++page) {
    float* at = walk.args.scratch + page * kPageTokens;
    __m256i p[4];
    for (int i = 0; i < 4; ++i) {
      p[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(at + i * 8), to_integer));
    }
    auto* out = reinterpret_cast<__m256i*>(at);
    for (int i = 0; i < 2; ++i) {
      const __m256i a = p[2 * i];
      const __m256i b = p[2 * i + 1];
      _mm256_storeu_si256(
          out + i, pack_in_order(_mm256_and_si256(a, low_byte), _mm256_and_si256(b, low_byte)));
      _mm256_storeu_si256(out + 2 + i,
                          pack_in_order(_mm256_srli_epi32(a, 8), _mm256_srli_epi32(b, 8)));
    }
  }
}

inline __m256i broadcast_quad(const std::byte* at) {
  std::int64_t four = 0;
  std::memcpy(&four, at, 8);
  return _mm256_set1_epi64x(four);
}

// sums[16 dims from `dim` on] += weights * values over pages [begin, end).
void add_values(const Walk& walk, std::uint32_t dim, std::uint32_t begin, std::uint32_t end,
                std::int64_t (&sums)[kDims]) {
  const std::uint32_t head_dim = walk.args.layout.head_dim;
  __m256i low[4];
  __m256i high[4];
  for (int i = 0; i < 4; ++i) low[i] = high[i] = _mm256_setzero_si256();
  for (std::uint32_t page = begin; page < end; ++page) {
    const std::byte* values = walk.head_page(page) + walk.offsets.values + std::size_t{dim} * 4;
    const auto* weights =
        reinterpret_cast<const std::byte*>(walk.args.scratch + page * kPageTokens);
    for (std::uint32_t quad = 0; quad < kPageTokens / 4; ++quad) {
      const __m256i weight_low = broadcast_quad(weights + quad * 8);
      const __m256i weight_high = broadcast_quad(weights + kPageTokens * 2 + quad * 8);
      const std::byte* row = values + std::size_t{quad} * head_dim * 4;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m256i v =
            _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i * 16)));
        low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(v, weight_low));
        high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(v, weight_high));
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    alignas(32) std::int32_t low_pairs[8];
    alignas(32) std::int32_t high_pairs[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(low_pairs), low[i]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(high_pairs), high[i]);
    for (int j = 0; j < 4; ++j) {
      const std::int64_t l = std::int64_t{low_pairs[2 * j]} + low_pairs[2 * j + 1];
      const std::int64_t h = std::int64_t{high_pairs[2 * j]} + high_pairs[2 * j + 1];
      sums[i * 4 + j] += h * 256 + l;
    }
  }
}

void combine(const Walk& walk, float* out) {
  const float denominator = static_cast<float>(walk.denominator) * 0x1p-24F;
  const float factor = (walk.largest / 65535.0F) / denominator;
  for (std::uint32_t dim = 0; dim < walk.args.layout.head_dim; dim += kDims) {
    std::int64_t sums[kDims] = {};
    for (std::uint32_t page = 0; page < walk.pages; page += kFlushPages) {
      const std::uint32_t left = walk.pages - page;
      add_values(walk, dim, page, page + (left < kFlushPages ? left : kFlushPages), sums);
    }
    for (std::uint32_t i = 0; i < kDims; ++i) out[dim + i] = static_cast<float>(sums[i]) * factor;
  }
}

}  // namespace

bool attention(const AttentionArgs& args) {
  check_attention(args);
  const std::uint32_t head_dim = args.layout.head_dim;
  if (!in_range(args.query, args.group * head_dim) || !sinks_in_range(args)) {
    std::memset(args.out, 0, std::size_t{args.group} * head_dim * sizeof(float));
    return false;
  }
  Walk walk(args);
  for (std::uint32_t head = 0; head < args.group; ++head) {
    quantize_query(args.query + std::size_t{head} * head_dim, args, walk.query);
    score(walk);
    walk.denominator = take_sink(args, head, walk.maximum);
    weigh(walk);
    round_weights(walk);
    combine(walk, args.out + std::size_t{head} * head_dim);
  }
  return true;
}

}  // namespace hearth::kernels::avx2
