// Attention with products of 16 bits: 4 positions a vector for the scores, 4 positions of a
// dimension a vector for the values.
#include "kernels/arm/neon.h"

#if defined(__aarch64__)
#include "kernels/simd/kv_entries.h"

namespace hearth::kernels::neon {
namespace {

constexpr std::uint32_t kDims = 8;  // of one pass over the values
static_assert(65'536LL / 4 * 255 * kQuantMax < (1LL << 31),
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
  // Lanes of the 4 positions from the one that is `position` after the first page's begin on, that
  // the query sees.
  uint32x4_t visible(std::uint32_t position) const {
    static constexpr std::uint32_t kIndex[kLanes] = {0, 1, 2, 3};
    const uint32x4_t at =
        vaddq_u32(vdupq_n_u32(first_page * kPageTokens + position), vld1q_u32(kIndex));
    return vandq_u32(vcgeq_u32(at, vdupq_n_u32(args.begin)), vcltq_u32(at, vdupq_n_u32(args.end)));
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

inline Floats keep(uint32x4_t lanes, Floats v) {
  return vreinterpretq_f32_u32(vandq_u32(lanes, vreinterpretq_u32_f32(v)));
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

// Scores of the 16 positions from `half` of the page on.
void score_half(const Walk& walk, const std::byte* page, std::uint32_t half, Floats (&scores)[4]) {
  const std::uint32_t head_dim = walk.args.layout.head_dim;
  const auto* keys =
      reinterpret_cast<const std::uint8_t*>(page) + std::size_t{half} * head_dim * 16;
  const auto* scales = reinterpret_cast<const float*>(page + walk.offsets.key_scales) +
                       std::size_t{half} * (head_dim / kBlock) * 16;
  for (Floats& score : scores) score = splat(0.0F);
  for (std::uint32_t b = 0; b < head_dim / kBlock; ++b, scales += 16) {
    Ints dots[4] = {};
    for (std::uint32_t g = 0; g < 8; ++g, keys += 64) {
      std::int32_t word = 0;
      std::memcpy(&word, walk.query.values + b * kBlock + g * 4, 4);
      const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(word));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const int8x16_t key =
            vreinterpretq_s8_u8(veorq_u8(vld1q_u8(keys + i * 16), vdupq_n_u8(128)));
        const int16x8_t low = vmull_s8(vget_low_s8(key), vget_low_s8(four));
        dots[i] = vpadalq_s16(dots[i], vpaddq_s16(low, vmull_high_s8(key, four)));
      }
    }
    const Floats query_scale = splat(walk.query.scales[b]);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < 4; ++i) {
      const Floats unit = query_scale * load(scales + i * kLanes);
      scores[i] = fused(to_floats(dots[i]), unit, scores[i]);
    }
  }
}

void score(Walk& walk) {
  Floats maxima = splat(-__builtin_inff());
  const Softcap cap(walk.args.score_cap * kLog2E);
  for (std::uint32_t at = 0; at < walk.pages * kPageTokens; at += 16) {
    Floats scores[4];
    score_half(walk, walk.head_page(at / kPageTokens), at / 16 % 2, scores);
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (walk.args.score_cap > 0.0F) scores[i] = cap(scores[i]);
      const uint32x4_t seen = walk.visible(at + i * kLanes);
      maxima = vbslq_f32(seen, greater(maxima, scores[i]), maxima);
      store(walk.args.scratch + at + i * kLanes, scores[i]);
    }
  }
  walk.maximum = vmaxvq_f32(maxima);
}

// Scores to weights times value scales, in place; the denominator and the largest on the way.
void weigh(Walk& walk) {
  const Floats maximum = splat(walk.maximum);
  Floats largest = splat(0.0F);
  int64x2_t sums = vdupq_n_s64(0);
  for (std::uint32_t page = 0; page < walk.pages; ++page) {
    const auto* scales =
        reinterpret_cast<const float*>(walk.head_page(page) + walk.offsets.value_scales);
    for (std::uint32_t slot = 0; slot < kPageTokens; slot += kLanes) {
      float* at = walk.args.scratch + page * kPageTokens + slot;
      const uint32x4_t seen = walk.visible(page * kPageTokens + slot);
      const Floats weight = keep(seen, exp2_of(load(at) - maximum));
      sums = vpadalq_s32(sums, to_steps(weight * splat(0x1p24F)));
      const Floats scaled = keep(seen, weight * load(scales + slot));
      largest = greater(largest, scaled);
      store(at, scaled);
    }
  }
  walk.denominator += vaddvq_s64(sums);
  walk.largest = vmaxvq_f32(largest);
}

// Weights to integers, in place: each page's 128 bytes become the low bytes of its positions as
// 16-bit integers, then the high bytes. All zero when the largest counts as zero.
void round_weights(const Walk& walk) {
  const float factor = walk.largest < kTiny ? 0.0F : 65535.0F / walk.largest;
  for (std::uint32_t page = 0; page < walk.pages; ++page) {
    float* at = walk.args.scratch + page * kPageTokens;
    uint16x4_t rounded[kPageTokens / kLanes];
    for (std::uint32_t i = 0; i < kPageTokens / kLanes; ++i) {
      const Ints steps = to_steps(load(at + i * kLanes) * splat(factor));
      rounded[i] = vmovn_u32(vreinterpretq_u32_s32(steps));
    }
    for (std::uint32_t i = 0; i < kPageTokens / kLanes; ++i) {
      const uint16x4_t low = vand_u16(rounded[i], vdup_n_u16(255));
      const uint16x4_t high = vshr_n_u16(rounded[i], 8);
      auto* bytes = reinterpret_cast<std::byte*>(at);
      std::memcpy(bytes + i * 8, &low, 8);
      std::memcpy(bytes + kPageTokens * 2 + i * 8, &high, 8);
    }
  }
}

inline int16x4_t load_weights(const std::byte* at) {
  int16x4_t weights;
  std::memcpy(&weights, at, 8);
  return weights;
}

// sums[8 dims from `dim` on] += weights * values over pages [begin, end).
void add_values(const Walk& walk, std::uint32_t dim, std::uint32_t begin, std::uint32_t end,
                std::int64_t (&sums)[kDims]) {
  const std::uint32_t head_dim = walk.args.layout.head_dim;
  Ints low[kDims] = {};
  Ints high[kDims] = {};
  for (std::uint32_t page = begin; page < end; ++page) {
    const std::byte* values = walk.head_page(page) + walk.offsets.values + std::size_t{dim} * 4;
    const auto* weights =
        reinterpret_cast<const std::byte*>(walk.args.scratch + page * kPageTokens);
    for (std::uint32_t quad = 0; quad < kPageTokens / 4; ++quad) {
      const int16x4_t weight_low = load_weights(weights + quad * 8);
      const int16x4_t weight_high = load_weights(weights + kPageTokens * 2 + quad * 8);
      const auto* row =
          reinterpret_cast<const std::int8_t*>(values + std::size_t{quad} * head_dim * 4);
#pragma GCC unroll 4
      for (std::uint32_t i = 0; i < kDims; i += 2) {
        const int16x8_t two = vmovl_s8(vld1_s8(row + i * 4));
        low[i] = vmlal_s16(low[i], vget_low_s16(two), weight_low);
        high[i] = vmlal_s16(high[i], vget_low_s16(two), weight_high);
        low[i + 1] = vmlal_s16(low[i + 1], vget_high_s16(two), weight_low);
        high[i + 1] = vmlal_s16(high[i + 1], vget_high_s16(two), weight_high);
      }
    }
  }
  for (std::uint32_t i = 0; i < kDims; ++i) {
    sums[i] += vaddlvq_s32(high[i]) * 256 + vaddlvq_s32(low[i]);
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

}  // namespace hearth::kernels::neon
#endif
