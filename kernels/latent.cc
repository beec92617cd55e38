#include "kernels/latent.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/elementary.h"
#include "kernels/preconditions.h"
#include "kernels/quantize_block.h"

namespace hearth::kernels {
namespace {

constexpr std::uint32_t kLatentBlocks = kLatentMax / kBlock;
// Positions whose products are added in 32 bits.
constexpr std::uint32_t kExactPositions = 256;
static_assert(kLatentMax == limits::kModelLatent, "a model that is read has rows that fit");
static_assert(std::uint64_t{kExactPositions} * 65'535 * 128 < (std::uint64_t{1} << 31),
              "32 bits hold the sum");

// The rows of a page, one slot after the other, then their scales.
struct LatentPage {
  std::int8_t* rows;
  float* scales;
  std::uint32_t width;

  std::int8_t* row(std::uint32_t slot) const { return rows + std::size_t{slot} * width; }
  float* row_scales(std::uint32_t slot) const {
    return scales + std::size_t{slot} * (width / kBlock);
  }
};

LatentPage latent_page(const KvLayout& layout, const std::byte* page) {
  std::byte* base = const_cast<std::byte*>(page);
  return {reinterpret_cast<std::int8_t*>(base),
          reinterpret_cast<float*>(base + std::size_t{kPageTokens} * layout.head_dim),
          layout.head_dim};
}

void check_latent(const KvLayout& layout) {
  INVARIANT(layout.kv_heads == 1 && is_whole_blocks(layout.head_dim), "one row of whole blocks");
  INVARIANT(layout.head_dim <= kLatentMax, "a row fits the kernels' stacks");
  INVARIANT(is_whole_blocks(layout.latent) && layout.latent <= layout.head_dim,
            "the values are some of the row");
}

bool is_readable(const float* x, std::uint32_t n) {
  return largest_magnitude(x, n) <= std::bit_cast<std::uint32_t>(kAttentionMax);
}

std::int32_t dot_of(const std::int8_t* a, const std::int8_t* b) {
  std::int32_t sum = 0;
  for (std::uint32_t i = 0; i < kBlock; ++i) sum += std::int32_t{a[i]} * b[i];
  return sum;
}

// The scores of all positions into args.scratch; returns the largest.
float latent_scores(const LatentArgs& args) {
  const std::uint32_t blocks = args.layout.head_dim / kBlock;
  std::array<std::int8_t, kLatentMax> query;
  std::array<float, kLatentBlocks> scales;
  const float factor = args.score_scale * kLog2E;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const std::uint32_t at = b * kBlock;
    scales[b] = quantize_block(args.query + at, kBlock, query.data() + at).scale * factor;
  }
  float maximum = 0.0F;
  for (std::uint32_t i = 0; i < args.end; ++i) {
    const LatentPage page = latent_page(args.layout, args.pages[i / kPageTokens]);
    const std::int8_t* row = page.row(i % kPageTokens);
    const float* row_scales = page.row_scales(i % kPageTokens);
    float sum = 0.0F;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const auto dot = static_cast<float>(dot_of(query.data() + b * kBlock, row + b * kBlock));
      sum = std::fma(dot, scales[b] * row_scales[b], sum);
    }
    args.scratch[i] = sum;
    maximum = i == 0 ? sum : std::max(maximum, sum);
  }
  return maximum;
}

// The sums of one position's values, of weight w: P * q for each value.
void add_values(const LatentPage& page, std::uint32_t slot, std::uint32_t blocks, float w,
                const float* to_integer, std::int32_t* sums) {
  const std::int8_t* row = page.row(slot);
  const float* scales = page.row_scales(slot);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    // Held in its range, so that slots of failed positions overflow nothing.
    const std::int32_t p = std::clamp(round_even((w * scales[b]) * to_integer[b]), 0, 65'535);
    for (std::uint32_t k = b * kBlock; k < (b + 1) * kBlock; ++k) sums[k] += p * row[k];
  }
}

}  // namespace

bool latent_write(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* row) {
  check_latent(layout);
  INVARIANT(page != nullptr && slot < kPageTokens, "the slot is in the page");
  if (!is_readable(row, layout.head_dim)) return false;
  const LatentPage to = latent_page(layout, page);
  for (std::uint32_t b = 0; b < layout.head_dim / kBlock; ++b) {
    const std::uint32_t at = b * kBlock;
    to.row_scales(slot)[b] = quantize_block(row + at, kBlock, to.row(slot) + at).scale;
  }
  return true;
}

bool latent_attention(const LatentArgs& args) {
  check_latent(args.layout);
  INVARIANT(args.end != 0 && args.end <= kPositionsMax, "a query sees its own position");
  INVARIANT(args.score_scale >= 0.0F && args.score_scale <= 0x1p20F,
            "the score's scale is in its range");
  const std::uint32_t values = args.layout.latent;
  const std::uint32_t blocks = values / kBlock;
  std::fill(args.out, args.out + values, 0.0F);
  if (!is_readable(args.query, args.layout.head_dim)) return false;
  const float maximum = latent_scores(args);
  std::int64_t denominator = 0;
  std::array<float, kLatentBlocks> largest{};
  for (std::uint32_t i = 0; i < args.end; ++i) {
    const float w = exp2_of(args.scratch[i] - maximum);
    args.scratch[i] = w;
    denominator += round_even(w * 0x1p24F);
    const LatentPage page = latent_page(args.layout, args.pages[i / kPageTokens]);
    const float* scales = page.row_scales(i % kPageTokens);
    for (std::uint32_t b = 0; b < blocks; ++b) largest[b] = std::max(largest[b], w * scales[b]);
  }
  std::array<float, kLatentBlocks> to_integer{};
  for (std::uint32_t b = 0; b < blocks; ++b) {
    if (largest[b] >= kTiny) to_integer[b] = 65535.0F / largest[b];
  }
  std::array<std::int64_t, kLatentMax> sums{};
  std::array<std::int32_t, kLatentMax> part;
  for (std::uint32_t begin = 0; begin < args.end; begin += kExactPositions) {
    std::fill_n(part.begin(), values, 0);
    const std::uint32_t end = std::min(args.end, begin + kExactPositions);
    for (std::uint32_t i = begin; i < end; ++i) {
      const LatentPage page = latent_page(args.layout, args.pages[i / kPageTokens]);
      add_values(page, i % kPageTokens, blocks, args.scratch[i], to_integer.data(), part.data());
    }
    for (std::uint32_t k = 0; k < values; ++k) sums[k] += part[k];
  }
  const float whole = static_cast<float>(denominator) * 0x1p-24F;
  for (std::uint32_t k = 0; k < values; ++k) {
    if (largest[k / kBlock] < kTiny) continue;
    args.out[k] = static_cast<float>(sums[k]) * ((largest[k / kBlock] / 65535.0F) / whole);
  }
  return true;
}

void latent_read(const KvLayout& layout, const std::byte* page, std::uint32_t slot,
                 std::byte* out) {
  check_latent(layout);
  INVARIANT(page != nullptr && slot < kPageTokens, "the slot is in the page");
  const LatentPage from = latent_page(layout, page);
  std::memcpy(out, from.row(slot), layout.head_dim);
  std::memcpy(out + layout.head_dim, from.row_scales(slot),
              layout.head_dim / kBlock * sizeof(float));
}

}  // namespace hearth::kernels
