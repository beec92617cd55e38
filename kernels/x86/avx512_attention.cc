// Attention with vpdpbusd: 16 positions a vector for the scores, 16 dimensions a vector for the
// values. Up to 4 query heads share each load of a key or a value.
#include "kernels/simd/kv_entries.h"

namespace hearth::kernels::avx512 {
namespace {

constexpr std::uint32_t kHeads = 4;      // of one pass
constexpr std::uint32_t kDims = 2 * 16;  // of one pass over the values
static_assert(65'536LL * 255 * kQuantMax < (1LL << 31), "byte planes fit 32 bits until flushed");

struct Query {
  std::int8_t values[kHeadDimMax];
  float scales[kBlocksMax];       // with the score scale and log2(e) folded in
  std::int32_t bias[kBlocksMax];  // -128 * sum of the block: keys are stored as k + 128
};

// The state of one pass: `heads` query heads, and the pages from the one that holds `begin`.
struct Pass {
  explicit Pass(const AttentionArgs& a)
      : args(a),
        offsets(page_offsets(a.layout.head_dim)),
        first_page(a.begin / kPageTokens),
        pages((a.end - 1) / kPageTokens + 1 - first_page),
        stride(std::size_t{pages} * kPageTokens) {}

  const AttentionArgs& args;
  PageOffsets offsets;
  std::uint32_t first_page;
  std::uint32_t pages;
  std::size_t stride;  // floats of scratch of one head
  Query queries[kHeads];
  float maximum[kHeads];
  float largest[kHeads];
  std::int64_t denominator[kHeads];

  const std::byte* head_page(std::uint32_t page) const {
    return args.pages[first_page + page] + args.kv_head * offsets.head_bytes;
  }
  // Lanes of the 16 positions from `half` of `page` on that the query sees.
  __mmask16 visible(std::uint32_t page, std::uint32_t half) const {
    const std::uint32_t start = (first_page + page) * kPageTokens + half * 16;
    const std::uint32_t low = args.begin > start ? args.begin - start : 0;
    const std::uint32_t high = args.end > start ? args.end - start : 0;
    const std::uint32_t below_high = high >= 16 ? 0xFFFFU : (1U << high) - 1U;
    const std::uint32_t below_low = low >= 16 ? 0xFFFFU : (1U << low) - 1U;
    return static_cast<__mmask16>(below_high & ~below_low);
  }
};

void quantize_query(const float* x, const AttentionArgs& args, Query& out) {
  const float factor = args.score_scale * kLog2E;
  for (std::uint32_t b = 0; b < args.layout.head_dim / kBlock; ++b) {
    const Block block = load_block(x + b * kBlock);
    const QuantScales scales = scales_of(largest_of(block));
    out.bias[b] = -128 * store_quantized(block, scales.inverse, out.values + b * kBlock);
    out.scales[b] = scales.scale * factor;
  }
}

// Scores of 16 positions for every head: scratch[head][page][half][16].
template <std::uint32_t heads>
void score_half(const Pass& pass, std::uint32_t page, std::uint32_t half, __m512 (&maxima)[heads]) {
  const std::uint32_t head_dim = pass.args.layout.head_dim;
  const std::byte* base = pass.head_page(page);
  const std::byte* keys = base + std::size_t{half} * head_dim * 16;
  const auto* scales = reinterpret_cast<const float*>(base + pass.offsets.key_scales) +
                       std::size_t{half} * (head_dim / kBlock) * 16;
  __m512 scores[heads];
#pragma GCC unroll 4
  for (std::uint32_t h = 0; h < heads; ++h) scores[h] = _mm512_setzero_ps();
  for (std::uint32_t b = 0; b < head_dim / kBlock; ++b) {
    __m512i dots[heads];
#pragma GCC unroll 4
    for (std::uint32_t h = 0; h < heads; ++h) dots[h] = _mm512_set1_epi32(pass.queries[h].bias[b]);
#pragma GCC unroll 8
    for (std::uint32_t g = 0; g < 8; ++g) {
      const __m512i key = _mm512_loadu_si512(keys + (b * 8 + g) * 64);
#pragma GCC unroll 4
      for (std::uint32_t h = 0; h < heads; ++h) {
        std::int32_t four = 0;
        std::memcpy(&four, pass.queries[h].values + b * kBlock + g * 4, 4);
        dots[h] = _mm512_dpbusd_epi32(dots[h], key, _mm512_set1_epi32(four));
      }
    }
    const __m512 key_scale = _mm512_loadu_ps(scales + b * 16);
#pragma GCC unroll 4
    for (std::uint32_t h = 0; h < heads; ++h) {
      const __m512 unit = _mm512_mul_ps(_mm512_set1_ps(pass.queries[h].scales[b]), key_scale);
      scores[h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[h]), unit, scores[h]);
    }
  }
  if (pass.args.score_cap > 0.0F) {
    const Softcap cap(pass.args.score_cap * kLog2E);
    for (std::uint32_t h = 0; h < heads; ++h) scores[h] = cap(scores[h]);
  }
  const __mmask16 visible = pass.visible(page, half);
#pragma GCC unroll 4
  for (std::uint32_t h = 0; h < heads; ++h) {
    maxima[h] = _mm512_mask_max_ps(maxima[h], visible, maxima[h], scores[h]);
    float* out = pass.args.scratch + h * pass.stride + page * kPageTokens + half * 16;
    _mm512_storeu_ps(out, scores[h]);
  }
}

template <std::uint32_t heads>
void score(Pass& pass) {
  __m512 maxima[heads];
  for (auto& m : maxima) m = _mm512_set1_ps(-__builtin_inff());
  for (std::uint32_t page = 0; page < pass.pages; ++page) {
    score_half<heads>(pass, page, 0, maxima);
    score_half<heads>(pass, page, 1, maxima);
  }
  for (std::uint32_t h = 0; h < heads; ++h) pass.maximum[h] = _mm512_reduce_max_ps(maxima[h]);
}

// Scores to weights times value scales, in place; the denominator and the largest on the way.
void weigh(Pass& pass, std::uint32_t h) {
  const __m512 maximum = _mm512_set1_ps(pass.maximum[h]);
  __m512 largest = _mm512_setzero_ps();
  __m512i sums = _mm512_setzero_si512();
  for (std::uint32_t half = 0; half < 2 * pass.pages; ++half) {
    float* at = pass.args.scratch + h * pass.stride + half * 16;
    const __mmask16 visible = pass.visible(half / 2, half % 2);
    const auto* scales =
        reinterpret_cast<const float*>(pass.head_page(half / 2) + pass.offsets.value_scales) +
        (half % 2) * 16;
    const __m512 weight =
        _mm512_maskz_mov_ps(visible, exp2_of(_mm512_sub_ps(_mm512_loadu_ps(at), maximum)));
    const __m512i steps = _mm512_cvtps_epi32(_mm512_mul_ps(weight, _mm512_set1_ps(0x1p24F)));
    sums = _mm512_add_epi64(sums, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(steps)));
    sums = _mm512_add_epi64(sums, _mm512_cvtepi32_epi64(_mm512_extracti32x8_epi32(steps, 1)));
    const __m512 scaled = _mm512_maskz_mul_ps(visible, weight, _mm512_loadu_ps(scales));
    largest = _mm512_max_ps(largest, scaled);
    _mm512_storeu_ps(at, scaled);
  }
  pass.denominator[h] += _mm512_reduce_add_epi64(sums);
  pass.largest[h] = _mm512_reduce_max_ps(largest);
}

// Weights to 16-bit integers, in place: of each page's 128 bytes the first 32 become the low bytes
// of its positions, the next 32 the high ones. All zero when the largest counts as zero.
void round_weights(const Pass& pass, std::uint32_t h) {
  const float factor = pass.largest[h] < kTiny ? 0.0F : 65535.0F / pass.largest[h];
  const __m512 to_integer = _mm512_set1_ps(factor);
  for (std::uint32_t page = 0; page < pass.pages; ++page) {
    float* at = pass.args.scratch + h * pass.stride + page * kPageTokens;
    const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(at), to_integer));
    const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(at + 16), to_integer));
    auto* out = reinterpret_cast<__m128i*>(at);
    _mm_storeu_si128(out, _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128(out + 1, _mm512_cvtepi32_epi8(b));
    _mm_storeu_si128(out + 2, _mm512_cvtepi32_epi8(_mm512_srli_epi32(a, 8)));
    _mm_storeu_si128(out + 3, _mm512_cvtepi32_epi8(_mm512_srli_epi32(b, 8)));
  }
}

inline __m512i broadcast_four(const std::byte* at) {
  std::int32_t four = 0;
  std::memcpy(&four, at, 4);
  return _mm512_set1_epi32(four);
}

// sums[h][32 dims from `dim` on] += weights * values over pages [begin, end).
template <std::uint32_t heads>
void add_values(const Pass& pass, std::uint32_t dim, std::uint32_t begin, std::uint32_t end,
                __m512i (&sums)[heads][4]) {
  const std::uint32_t head_dim = pass.args.layout.head_dim;
  __m512i low[heads][2];
  __m512i high[heads][2];
#pragma GCC unroll 4
  for (std::uint32_t h = 0; h < heads; ++h) {
    low[h][0] = low[h][1] = high[h][0] = high[h][1] = _mm512_setzero_si512();
  }
  for (std::uint32_t page = begin; page < end; ++page) {
    const std::byte* values = pass.head_page(page) + pass.offsets.values + std::size_t{dim} * 4;
    const auto* weights =
        reinterpret_cast<const std::byte*>(pass.args.scratch + page * kPageTokens);
    for (std::uint32_t quad = 0; quad < kPageTokens / 4; ++quad) {
      const __m512i v0 = _mm512_loadu_si512(values + std::size_t{quad} * head_dim * 4);
      const __m512i v1 = _mm512_loadu_si512(values + std::size_t{quad} * head_dim * 4 + 64);
#pragma GCC unroll 4
      for (std::uint32_t h = 0; h < heads; ++h) {
        const std::byte* at = weights + h * pass.stride * 4 + quad * 4;
        const __m512i weight_low = broadcast_four(at);
        const __m512i weight_high = broadcast_four(at + kPageTokens);
        low[h][0] = _mm512_dpbusd_epi32(low[h][0], weight_low, v0);
        low[h][1] = _mm512_dpbusd_epi32(low[h][1], weight_low, v1);
        high[h][0] = _mm512_dpbusd_epi32(high[h][0], weight_high, v0);
        high[h][1] = _mm512_dpbusd_epi32(high[h][1], weight_high, v1);
      }
    }
  }
#pragma GCC unroll 4
  for (std::uint32_t h = 0; h < heads; ++h) {
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto part = [i](__m512i v) {
        return _mm512_cvtepi32_epi64(i % 2 == 0 ? _mm512_castsi512_si256(v)
                                                : _mm512_extracti32x8_epi32(v, 1));
      };
      const __m512i wide =
          _mm512_add_epi64(_mm512_slli_epi64(part(high[h][i / 2]), 8), part(low[h][i / 2]));
      sums[h][i] = _mm512_add_epi64(sums[h][i], wide);
    }
  }
}

template <std::uint32_t heads>
void combine(const Pass& pass, std::uint32_t first_head) {
  float factors[heads];
  for (std::uint32_t h = 0; h < heads; ++h) {
    const float denominator = static_cast<float>(pass.denominator[h]) * 0x1p-24F;
    factors[h] = (pass.largest[h] / 65535.0F) / denominator;
  }
  const std::uint32_t head_dim = pass.args.layout.head_dim;
  for (std::uint32_t dim = 0; dim < head_dim; dim += kDims) {
    __m512i sums[heads][4];
    for (auto& head : sums) {
      for (auto& sum : head) sum = _mm512_setzero_si512();
    }
    for (std::uint32_t page = 0; page < pass.pages; page += kFlushPages) {
      const std::uint32_t left = pass.pages - page;
      add_values<heads>(pass, dim, page, page + (left < kFlushPages ? left : kFlushPages), sums);
    }
    for (std::uint32_t h = 0; h < heads; ++h) {
      float* out = pass.args.out + std::size_t{first_head + h} * head_dim + dim;
      for (std::uint32_t i = 0; i < 4; ++i) {
        const __m256 y = _mm256_mul_ps(_mm512_cvtepi64_ps(sums[h][i]), _mm256_set1_ps(factors[h]));
        _mm256_storeu_ps(out + i * 8, y);
      }
    }
  }
}

template <std::uint32_t heads>
void attend(Pass& pass, std::uint32_t first_head) {
  for (std::uint32_t h = 0; h < heads; ++h) {
    const std::size_t at = std::size_t{first_head + h} * pass.args.layout.head_dim;
    quantize_query(pass.args.query + at, pass.args, pass.queries[h]);
  }
  score<heads>(pass);
  for (std::uint32_t h = 0; h < heads; ++h) {
    pass.denominator[h] = take_sink(pass.args, first_head + h, pass.maximum[h]);
    weigh(pass, h);
    round_weights(pass, h);
  }
  combine<heads>(pass, first_head);
}

}  // namespace

bool attention(const AttentionArgs& args) {
  check_attention(args);
  const std::uint32_t head_dim = args.layout.head_dim;
  if (!in_range(args.query, args.group * head_dim) || !sinks_in_range(args)) {
    std::memset(args.out, 0, std::size_t{args.group} * head_dim * sizeof(float));
    return false;
  }
  Pass pass(args);
  for (std::uint32_t head = 0; head < args.group; head += kHeads) {
    switch (args.group - head) {
      case 1: attend<1>(pass, head); break;
      case 2: attend<2>(pass, head); break;
      case 3: attend<3>(pass, head); break;
      default: attend<4>(pass, head); break;
    }
  }
  return true;
}

}  // namespace hearth::kernels::avx512
