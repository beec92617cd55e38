// Attention of a prompt's rows on the integer tensor cores. A block takes the query heads of one kv
// head for as many tokens as fill 64 rows: four groups of 16 rows, two warps each. Three passes
// over the visible pages, 32 positions a page, each of which computes the scores anew from int8
// products: the largest score; the denominator and the largest weighted value scale; P and its
// products with the values. In the first two the warps of a pair share the pages, in the third the
// dimensions.
//
// P of 16 bits is two operands of bytes. Positions are taken in the order in which the scores lie
// in the lanes, values to match: integer sums know no order.
#include <cmath>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/launched.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kRows = 64;
constexpr std::uint32_t kGroupRows = 16;
constexpr std::uint32_t kTilesMost = 8;  // of 8 dimensions, of a warp at once

struct Args {
  std::uint32_t tokens;
  std::uint32_t tokens_of_block;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  PageOffsets offsets;
  float factor;  // score_scale * log2(e)
  Global<const float> query;
  Global<const std::byte* const* const> pages;
  Global<const std::uint32_t> begins;
  Global<const std::uint32_t> ends;
  Global<float> out;
  Global<std::uint32_t> failed;
};

template <std::uint32_t kBlocks>
struct PromptShared {
  SharedArray<std::uint32_t, kRows * kBlocks * 8> values;  // [row][word of four dimensions]
  SharedArray<float, kRows * kBlocks> scales;              // [row][block], all factors folded in
  SharedArray<std::uint32_t, kRows> refused;               // [token of the block]
  SharedArray<std::uint32_t, 2 * kRows> maxima;            // [warp of the pair][row]
  SharedArray<std::uint32_t, 2 * kRows> largest;
  SharedArray<std::int64_t, 2 * kRows> denominators;
};

// The rows of a warp. A lane has two rows of its group, g and g + 8.
struct Work {
  std::uint32_t group;  // query heads of a token
  std::uint32_t kv_head;
  std::uint32_t first_token;
  std::uint32_t rows;
  std::uint32_t first_row;   // of the warp's 16, in the block
  std::uint32_t half;        // which of its pair the warp is
  std::uint32_t first_page;  // of those that a row of the warp sees
  std::uint32_t end_page;
  std::uint32_t begins[2];
  std::uint32_t ends[2];
  HEARTH_DEVICE bool visible(unsigned r, std::uint32_t position) const {
    return position >= begins[r] && position < ends[r];
  }
};

HEARTH_DEVICE Work work_of(const Args& args) {
  Work work{};
  work.group = args.heads / args.kv_heads;
  work.kv_head = block_index_x() % args.kv_heads;
  work.first_token = block_index_x() / args.kv_heads * args.tokens_of_block;
  const std::uint32_t left = args.tokens - work.first_token;
  work.rows = (left < args.tokens_of_block ? left : args.tokens_of_block) * work.group;
  const unsigned warp = thread_index() / 32;
  work.first_row = warp / 2 * kGroupRows;
  work.half = warp % 2;
  std::uint32_t last = 0;
  std::uint32_t inverse = 0;  // of the first position: the largest inverse is the smallest
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t row = work.first_row + 8 * r + thread_index() % 32 / 4;
    if (row >= work.rows) continue;  // begins and ends at 0: sees nothing
    const std::uint32_t token = work.first_token + row / work.group;
    work.begins[r] = args.begins.get(token);
    work.ends[r] = args.ends.get(token);
    if (work.begins[r] >= work.ends[r]) continue;
    last = work.ends[r] > last ? work.ends[r] : last;
    inverse = ~work.begins[r] > inverse ? ~work.begins[r] : inverse;
  }
  last = warp_max(last);
  inverse = warp_max(inverse);
  work.end_page = (last + kPageTokens - 1) / kPageTokens;
  work.first_page = last == 0 ? 0 : ~inverse / kPageTokens;
  return work;
}

HEARTH_DEVICE std::size_t head_of(const Args& args, const Work& work, std::uint32_t row) {
  return std::size_t{work.first_token + row / work.group} * args.heads + work.kv_head * work.group +
         row % work.group;
}

// A warp a run of 32 values. Rows that are not there are zero.
template <std::uint32_t kBlocks>
HEARTH_DEVICE void quantize_queries(const Args& args, const Work& work,
                                    PromptShared<kBlocks>& shared) {
  const unsigned lane = thread_index() % 32;
  const std::uint32_t blocks = args.head_dim / kBlock;
  for (std::uint32_t i = thread_index(); i < kRows; i += kThreads) shared.refused.put(i, 0U);
  sync_threads();
  for (std::uint32_t i = thread_index() / 32; i < kRows * blocks; i += kThreads / 32) {
    const std::uint32_t row = i / blocks;
    float value = 0.0F;
    if (row < work.rows) {
      value = args.query.get(head_of(args, work, row) * args.head_dim + i % blocks * kBlock + lane);
    }
    const auto most = std::bit_cast<std::uint32_t>(kAttentionMax);
    const bool wrong = (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU) > most;
    if (warp_any(wrong) && lane == 0) atomic_add(shared.refused, row / work.group, 1U);
    float scale = 0.0F;
    const std::uint32_t word = quantize_run(value, args.factor, scale);
    if (lane % 4 == 0) shared.values.put(i * 8 + lane / 4, word);
    if (lane == 0) shared.scales.put(i, scale);
  }
}

HEARTH_DEVICE Global<const std::byte> page_of(const Args& args, const Work& work,
                                              std::uint32_t page) {
  const Global<const std::byte* const> table(args.pages.get(0));
  return Global(table.get(page)).at(work.kv_head * args.offsets.head_bytes);
}

// Scores of a page: [8 positions][row g or g + 8, position 2 c or 2 c + 1] as mma.sync has them.
using Scores = float[4][4];

template <std::uint32_t kBlocks>
HEARTH_DEVICE void score_page(const Args& args, const Work& work,
                              const PromptShared<kBlocks>& shared, Global<const std::byte> page,
                              Scores& scores) {
  const unsigned g = thread_index() % 32 / 4;
  const unsigned c = thread_index() % 4;
  const std::uint32_t blocks = args.head_dim / kBlock;
  const Global<const std::uint32_t> keys = page.as<const std::uint32_t>();
  const Global<const float> key_scales = page.at(args.offsets.key_scales).as<const float>();
  HEARTH_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) scores[j][i] = 0.0F;
  }
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const std::uint32_t at[2] = {(work.first_row + g) * blocks + b,
                                 (work.first_row + g + 8) * blocks + b};
    const std::uint32_t left[4] = {
        shared.values.get(at[0] * 8 + c), shared.values.get(at[1] * 8 + c),
        shared.values.get(at[0] * 8 + 4 + c), shared.values.get(at[1] * 8 + 4 + c)};
    const float query_scales[2] = {shared.scales.get(at[0]), shared.scales.get(at[1])};
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t quads = j / 2 * (args.head_dim / 4) + b * 8;  // of 16 slots
      const std::uint32_t slot = j % 2 * 8;
      const std::uint32_t right[2] = {keys.get((quads + c) * 16 + slot + g) ^ 0x80808080U,
                                      keys.get((quads + 4 + c) * 16 + slot + g) ^ 0x80808080U};
      std::int32_t dots[4] = {};
      multiply_16x8x32(dots, left, right);
      const std::size_t scale = (j / 2 * blocks + b) * 16 + slot + 2 * c;
      const float key[2] = {key_scales.get(scale), key_scales.get(scale + 1)};
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        scores[j][i] =
            std::fma(static_cast<float>(dots[i]), query_scales[i / 2] * key[i % 2], scores[j][i]);
      }
    }
  }
}

// Position of the page that score i of 8 positions j belongs to.
HEARTH_DEVICE std::uint32_t slot_of(unsigned j, unsigned i) {
  return 8 * j + 2 * (thread_index() % 4) + i % 2;
}

HEARTH_DEVICE std::int64_t sum_of_lanes(std::int64_t mine) {
  HEARTH_UNROLL
  for (unsigned mask = 1; mask < 4; mask *= 2) {
    const auto bits = static_cast<std::uint64_t>(mine);
    const std::uint32_t low = shuffle_xor(static_cast<std::uint32_t>(bits), mask);
    const std::uint32_t high = shuffle_xor(static_cast<std::uint32_t>(bits >> 32), mask);
    mine += static_cast<std::int64_t>(std::uint64_t{high} << 32 | low);
  }
  return mine;
}

HEARTH_DEVICE std::uint32_t max_of_lanes(std::uint32_t mine) {
  HEARTH_UNROLL
  for (unsigned mask = 1; mask < 4; mask *= 2) {
    const std::uint32_t other = shuffle_xor(mine, mask);
    mine = other > mine ? other : mine;
  }
  return mine;
}

// The larger of what the pair has for a row, or the sum.
template <unsigned kCount>
HEARTH_DEVICE std::uint32_t larger(const SharedArray<std::uint32_t, kCount>& pairs,
                                   std::uint32_t row) {
  const std::uint32_t a = pairs.get(row);
  const std::uint32_t b = pairs.get(kRows + row);
  return a > b ? a : b;
}

// First pass: the largest score of each row, as ordered() has it.
template <std::uint32_t kBlocks>
HEARTH_DEVICE void find_maxima(const Args& args, const Work& work, PromptShared<kBlocks>& shared) {
  std::uint32_t maxima[2] = {};
  for (std::uint32_t p = work.first_page + work.half; p < work.end_page; p += 2) {
    Scores scores;
    score_page(args, work, shared, page_of(args, work, p), scores);
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const std::uint32_t order = ordered(scores[j][i]);
        const bool counts = work.visible(i / 2, p * kPageTokens + slot_of(j, i));
        if (counts && order > maxima[i / 2]) maxima[i / 2] = order;
      }
    }
  }
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t most = max_of_lanes(maxima[r]);
    const std::uint32_t row = work.first_row + 8 * r + thread_index() % 32 / 4;
    if (thread_index() % 4 == 0) shared.maxima.put(work.half * kRows + row, most);
  }
}

// Second pass: denominators, and the largest weighted value scales as bits.
template <std::uint32_t kBlocks>
HEARTH_DEVICE void sum_weights(const Args& args, const Work& work, const float (&maxima)[2],
                               PromptShared<kBlocks>& shared) {
  std::uint32_t largest[2] = {};
  std::int64_t denominators[2] = {};
  for (std::uint32_t p = work.first_page + work.half; p < work.end_page; p += 2) {
    const Global<const std::byte> page = page_of(args, work, p);
    const Global<const float> value_scales = page.at(args.offsets.value_scales).as<const float>();
    Scores scores;
    score_page(args, work, shared, page, scores);
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        if (!work.visible(i / 2, p * kPageTokens + slot_of(j, i))) continue;
        const float w = exp2_of(scores[j][i] - maxima[i / 2]);
        denominators[i / 2] += round_even(w * 0x1p24F);
        const std::uint32_t x = std::bit_cast<std::uint32_t>(w * value_scales.get(slot_of(j, i)));
        if (x > largest[i / 2]) largest[i / 2] = x;
      }
    }
  }
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t most = max_of_lanes(largest[r]);
    const std::int64_t sum = sum_of_lanes(denominators[r]);
    const std::uint32_t row = work.first_row + 8 * r + thread_index() % 32 / 4;
    if (thread_index() % 4 != 0) continue;
    shared.largest.put(work.half * kRows + row, most);
    shared.denominators.put(work.half * kRows + row, sum);
  }
}

// The P of a page as left operands of bytes: rows g and g + 8, then their later positions.
HEARTH_DEVICE void weights_of(const Args& args, const Work& work, std::uint32_t first_position,
                              Global<const std::byte> page, const Scores& scores,
                              const float (&maxima)[2], const float (&to_integer)[2],
                              std::uint32_t (&low)[4], std::uint32_t (&high)[4]) {
  const Global<const float> value_scales = page.at(args.offsets.value_scales).as<const float>();
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) low[k] = high[k] = 0;
  HEARTH_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned r = i / 2;
      if (!work.visible(r, first_position + slot_of(j, i))) continue;
      const float x = exp2_of(scores[j][i] - maxima[r]) * value_scales.get(slot_of(j, i));
      const auto p = static_cast<std::uint32_t>(round_even(x * to_integer[r]));
      const unsigned shift = 8 * (2 * (j % 2) + i % 2);
      low[r + j / 2 * 2] |= (p & 255U) << shift;
      high[r + j / 2 * 2] |= (p >> 8 & 255U) << shift;
    }
  }
}

struct Sums {
  std::int32_t low[kTilesMost][4];
  std::int32_t high[kTilesMost][4];
};

// Adds the products of a page's P with `tiles` times 8 dimensions of its values.
HEARTH_DEVICE void add_values(const Args& args, Global<const std::byte> page, std::uint32_t first,
                              std::uint32_t tiles, const std::uint32_t (&low)[4],
                              const std::uint32_t (&high)[4], Sums& sums) {
  const unsigned g = thread_index() % 32 / 4;
  const unsigned c = thread_index() % 4;
  const Global<const std::uint32_t> values = page.at(args.offsets.values).as<const std::uint32_t>();
  const std::uint32_t selector = c % 2 == 0 ? 0x5410U : 0x7632U;
  HEARTH_UNROLL
  for (std::uint32_t n = 0; n < kTilesMost; ++n) {
    if (n >= tiles) continue;
    const auto word = [&](std::uint32_t quad) {  // positions 4 quad ..+3
      return values.get(quad * args.head_dim + first + 8 * n + g);
    };
    const std::uint32_t right[2] = {pick_bytes(word(c / 2), word(2 + c / 2), selector),
                                    pick_bytes(word(4 + c / 2), word(6 + c / 2), selector)};
    multiply_16x8x32_unsigned(sums.low[n], low, right);
    multiply_16x8x32_unsigned(sums.high[n], high, right);
  }
}

// Third pass, over the warp's dimensions from `first` on.
template <std::uint32_t kBlocks>
HEARTH_DEVICE void sum_values(const Args& args, const Work& work,
                              const PromptShared<kBlocks>& shared, const float (&maxima)[2],
                              const float (&largest)[2], std::uint32_t first, std::uint32_t tiles) {
  Sums sums = {};
  float to_integer[2];
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r)
    to_integer[r] = largest[r] < kTiny ? 0.0F : 65535.0F / largest[r];
  for (std::uint32_t p = work.first_page; p < work.end_page; ++p) {
    const Global<const std::byte> page = page_of(args, work, p);
    Scores scores;
    score_page(args, work, shared, page, scores);
    std::uint32_t low[4];
    std::uint32_t high[4];
    weights_of(args, work, p * kPageTokens, page, scores, maxima, to_integer, low, high);
    add_values(args, page, first, tiles, low, high, sums);
  }
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t row = work.first_row + 8 * r + thread_index() % 32 / 4;
    if (row >= work.rows) continue;
    const std::int64_t denominator =
        shared.denominators.get(row) + shared.denominators.get(kRows + row);
    const bool zero = shared.refused.get(row / work.group) != 0 || largest[r] < kTiny;
    const float factor =
        zero ? 0.0F : (largest[r] / 65535.0F) / (static_cast<float>(denominator) * 0x1p-24F);
    const std::size_t at = head_of(args, work, row) * args.head_dim + first;
    HEARTH_UNROLL
    for (std::uint32_t n = 0; n < kTilesMost; ++n) {
      if (n >= tiles) continue;
      HEARTH_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        const std::int64_t sum =
            std::int64_t{sums.high[n][2 * r + i]} * 256 + sums.low[n][2 * r + i];
        const float value = zero ? 0.0F : static_cast<float>(sum) * factor;
        args.out.put(at + 8 * n + 2 * (thread_index() % 4) + i, value);
      }
    }
  }
}

template <std::uint32_t kBlocks>
HEARTH_KERNEL(kThreads, 1)
attention_of_prompt(Args args) {
  wait_for_previous_kernel();
  PromptShared<kBlocks>& shared = shared_memory<PromptShared<kBlocks> >();
  const Work work = work_of(args);
  quantize_queries(args, work, shared);
  sync_threads();
  if (thread_index() < work.rows / work.group && shared.refused.get(thread_index()) != 0) {
    atomic_or(args.failed, work.first_token + thread_index(), 1U);
  }
  find_maxima(args, work, shared);
  sync_threads();
  float maxima[2];
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t row = work.first_row + 8 * r + thread_index() % 32 / 4;
    maxima[r] = from_ordered(larger(shared.maxima, row));
  }
  sum_weights(args, work, maxima, shared);
  sync_threads();
  float largest[2];
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t row = work.first_row + 8 * r + thread_index() % 32 / 4;
    largest[r] = std::bit_cast<float>(larger(shared.largest, row));
  }
  for (std::uint32_t first = 0; first < args.head_dim; first += 2 * kTilesMost * 8) {
    const std::uint32_t left = (args.head_dim - first) / 8;  // tiles: a multiple of four
    const std::uint32_t tiles = (left < 2 * kTilesMost ? left : 2 * kTilesMost) / 2;
    sum_values(args, work, shared, maxima, largest, first + work.half * tiles * 8, tiles);
  }
}

}  // namespace

Status attention_prompt(const AttentionRows& rows, std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_heads(rows));
  const std::uint32_t head_dim = rows.layout.head_dim;
  const std::uint32_t kv_heads = rows.layout.kv_heads;
  const std::uint32_t group = rows.heads / kv_heads;
  REQUIRE(group <= kPromptGroupMost, std::to_string(group) + " query heads a kv head; at most " +
                                         std::to_string(kPromptGroupMost) + " fit a block");
  if (rows.tokens == 0) return ok_status();
  const std::uint32_t tokens = kRows / group;
  const Args args{rows.tokens,
                  tokens,
                  rows.heads,
                  kv_heads,
                  head_dim,
                  page_offsets(head_dim),
                  rows.score_scale * kLog2E,
                  Global(rows.query),
                  Global(rows.pages),
                  Global(rows.begins),
                  Global(rows.ends),
                  Global(rows.out),
                  Global(failed)};
  const Grid grid{(rows.tokens + tokens - 1) / tokens * kv_heads, 1};
  const auto with = [&](auto kernel, std::size_t shared_bytes) {
    return launched("attention_of_prompt",
                    launch_early(kernel, grid, kThreads, shared_bytes, stream, args));
  };
  if (head_dim <= 4 * kBlock) return with(attention_of_prompt<4>, sizeof(PromptShared<4>));
  return with(attention_of_prompt<kHeadDimMax / kBlock>,
              sizeof(PromptShared<kHeadDimMax / kBlock>));
}

}  // namespace hearth::kernels::cuda
