// Attention of a prompt's rows on the integer tensor cores. The rows of a kv head are its query
// heads of all tokens, one token after another; a block takes 16. Its warps take a page of 32
// positions each, in three passes: scores and the largest; weights, the denominator and the largest
// weighted value scale; P and its products with the values. In the last each warp has dimensions of
// its own and needs the P of all pages, which pass through shared memory.
//
// Where a block sees few pages, scores stay in shared memory between the passes, and P takes their
// place. Where it sees more, each pass computes them anew.
//
// The products take positions in an order that lets every load be of 16 bytes: integer sums know no
// order. With g = lane / 4 and c = lane % 4 as mma.sync has them, column g of the j-th product of
// scores is position 4 g + j, so that a lane's scores are of positions 8 c to 8 c + 7; as left
// operands of P they meet the values of those positions, words 2 c and 2 c + 1 of a dimension.
// Column g of the n-th product of values is dimension 4 g + n.
#include <cmath>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/launched.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr std::uint32_t kRows = 16;
constexpr std::uint32_t kKeptPages = 16;
constexpr std::uint32_t kBlocksMost = kHeadDimMax / kBlock;
constexpr std::uint32_t kTiles = 4;  // of 8 dimensions, of a warp at once

struct Args {
  std::uint32_t rows;  // of a kv head
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::uint32_t blocks;  // of kRows
  PageOffsets offsets;
  float factor;  // score_scale * log2(e)
  Global<const float> query;
  Global<const std::byte* const* const> pages;
  Global<const std::uint32_t> begins;
  Global<const std::uint32_t> ends;
  Global<float> out;
  Global<std::uint32_t> failed;
};

struct PromptShared {
  // [page][j][lane]: the lane's scores of the j-th product, then their x; then P as left operands,
  // low halves at j = 0 and high ones at j = 1. At last the sums of warps that share dimensions.
  SharedArray<Words4, kKeptPages * 4 * 32> pages;
  SharedArray<std::uint32_t, kBlocksMost * 4 * 32> queries;  // [block][word][lane]: left operands
  SharedArray<float, kBlocksMost * kRows> scales;            // [block][row], all factors folded in
  SharedArray<std::int64_t, kWarps * kRows> denominators;    // [warp][row]
  SharedArray<std::uint32_t, kWarps * kRows> maxima;
  SharedArray<std::uint32_t, kWarps * kRows> largest;
  SharedArray<std::uint32_t, kRows> refused;  // [token of the block]
};
static_assert(sizeof(PromptShared) <= 48 * 1024);
static_assert(kWarps * 2 * kTiles <= kKeptPages * 4, "the sums of all warps fit");

// The rows of a block, and of a lane two of them, g and g + 8.
struct Work {
  std::uint32_t group;  // query heads of a token
  std::uint32_t kv_head;
  std::uint32_t first_row;
  std::uint32_t rows;
  std::uint32_t first_token;
  std::uint32_t tokens;      // that the rows belong to
  std::uint32_t first_page;  // of those that a row of the block sees
  std::uint32_t end_page;
  std::uint32_t begins[2];
  std::uint32_t counts[2];  // of visible positions, from `begins` on
};

// The last rows come first: in a prompt they see most, and what is left at the end is then small.
HEARTH_DEVICE Work work_of(const Args& args) {
  Work work{};
  work.group = args.heads / args.kv_heads;
  work.kv_head = block_index_x() % args.kv_heads;
  work.first_row = (args.blocks - 1 - block_index_x() / args.kv_heads) * kRows;
  const std::uint32_t left = args.rows - work.first_row;
  work.rows = left < kRows ? left : kRows;
  work.first_token = work.first_row / work.group;
  work.tokens = (work.first_row + work.rows - 1) / work.group - work.first_token + 1;
  std::uint32_t last = 0;
  std::uint32_t inverse = 0;  // of the first position: the largest inverse is the smallest
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t row = 8 * r + thread_index() % 32 / 4;
    if (row >= work.rows) continue;  // sees nothing
    const std::uint32_t token = (work.first_row + row) / work.group;
    const std::uint32_t begin = args.begins.get(token);
    const std::uint32_t end = args.ends.get(token);
    if (begin >= end) continue;
    work.begins[r] = begin;
    work.counts[r] = end - begin;
    last = end > last ? end : last;
    inverse = ~begin > inverse ? ~begin : inverse;
  }
  last = warp_max(last);
  inverse = warp_max(inverse);
  work.end_page = (last + kPageTokens - 1) / kPageTokens;
  work.first_page = last == 0 ? 0 : ~inverse / kPageTokens;
  return work;
}

// Where a row of the kv head, of all tokens, has its query and output: (token, head).
HEARTH_DEVICE std::size_t head_of(const Args& args, const Work& work, std::uint32_t row) {
  return std::size_t{row / work.group} * args.heads + work.kv_head * work.group + row % work.group;
}

// A warp a run of 32 values, four under way. The tokens of the block are looked through with all
// their query heads, of which other blocks may have some. Rows that are not there are zero.
HEARTH_DEVICE void quantize_queries(const Args& args, const Work& work, PromptShared& shared) {
  constexpr unsigned kLoads = 4;
  const unsigned lane = thread_index() % 32;
  const std::uint32_t blocks = args.head_dim / kBlock;
  const std::uint32_t base = work.first_token * work.group;
  const std::uint32_t skipped = work.first_row - base;
  const std::uint32_t there = work.tokens * work.group;
  const std::uint32_t runs = (there > skipped + kRows ? there : skipped + kRows) * blocks;
  if (thread_index() < kRows) shared.refused.put(thread_index(), 0U);
  sync_threads();
  HEARTH_ROLL
  for (std::uint32_t first = thread_index() / 32; first < runs; first += kLoads * kWarps) {
    float values[kLoads] = {};
    HEARTH_UNROLL
    for (unsigned k = 0; k < kLoads; ++k) {
      const std::uint32_t i = first + k * kWarps;
      if (i >= there * blocks) continue;
      const std::size_t at = head_of(args, work, base + i / blocks) * blocks + i % blocks;
      values[k] = args.query.get(at * kBlock + lane);
    }
    HEARTH_UNROLL
    for (unsigned k = 0; k < kLoads; ++k) {
      const std::uint32_t i = first + k * kWarps;
      if (i >= runs) continue;
      const auto most = std::bit_cast<std::uint32_t>(kAttentionMax);
      const bool wrong = (std::bit_cast<std::uint32_t>(values[k]) & 0x7FFFFFFFU) > most;
      if (warp_any(wrong) && lane == 0) {
        atomic_add(shared.refused, i / blocks / work.group, 1U);
      }
      const std::uint32_t row = i / blocks - skipped;
      if (i / blocks < skipped || row >= kRows) continue;
      float scale = 0.0F;
      const std::uint32_t word = quantize_run(values[k], args.factor, scale);
      const unsigned w = lane / 4;  // of the run's eight
      const std::uint32_t at = (i % blocks * 4 + w / 4 * 2 + row / 8) * 32 + row % 8 * 4 + w % 4;
      if (lane % 4 == 0) shared.queries.put(at, word);
      if (lane == 0) shared.scales.put(i % blocks * kRows + row, scale);
    }
  }
}

HEARTH_DEVICE Global<const std::byte> page_of(const Args& args, const Work& work,
                                              std::uint32_t page) {
  const Global<const std::byte* const> table(args.pages.get(0));
  return Global(table.get(page)).at(work.kv_head * args.offsets.head_bytes);
}

// Scores of a page: [j][i], of row g + 8 (i / 2) and the page's position 8 c + 4 (i % 2) + j.
using Scores = float[4][4];

// Which of them are visible.
struct Seen {
  std::uint32_t first[2];  // of the lane's positions, counted from the row's first visible one
  std::uint32_t counts[2];
  HEARTH_DEVICE bool at(unsigned j, unsigned i) const {
    return first[i / 2] + 4 * (i % 2) + j < counts[i / 2];
  }
};

HEARTH_DEVICE Seen seen_of(const Work& work, std::uint32_t p) {
  const std::uint32_t first = p * kPageTokens + 8 * (thread_index() % 4);
  return {{first - work.begins[0], first - work.begins[1]}, {work.counts[0], work.counts[1]}};
}

// 32 dimensions of the keys that a lane's four products take, and the scales of their columns.
struct KeyBlock {
  Words4 words[2];
  Words4 scales[2];
};

HEARTH_DEVICE KeyBlock key_block(const Args& args, Global<const std::byte> page, std::uint32_t b) {
  const unsigned g = thread_index() % 32 / 4;
  const unsigned c = thread_index() % 4;
  const std::uint32_t blocks = args.head_dim / kBlock;
  const Global<const Words4> keys = page.as<const Words4>();
  const Global<const Words4> scales = page.at(args.offsets.key_scales).as<const Words4>();
  const std::uint32_t quad = g / 4 * (args.head_dim / 4) + b * 8 + c;
  const std::uint32_t at = (c / 2 * blocks + b) * 4 + c % 2 * 2;
  return {{keys.get(quad * 4 + g % 4), keys.get((quad + 4) * 4 + g % 4)},
          {scales.get(at), scales.get(at + 1)}};
}

HEARTH_DEVICE void score_page(const Args& args, const PromptShared& shared,
                              Global<const std::byte> page, Scores& scores) {
  const unsigned lane = thread_index() % 32;
  const std::uint32_t blocks = args.head_dim / kBlock;
  HEARTH_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) scores[j][i] = 0.0F;
  }
  HEARTH_ROLL
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const KeyBlock keys = key_block(args, page, b);
    std::uint32_t left[4];
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) left[k] = shared.queries.get((b * 4 + k) * 32 + lane);
    const float query_scales[2] = {shared.scales.get(b * kRows + lane / 4),
                                   shared.scales.get(b * kRows + lane / 4 + 8)};
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t right[2] = {keys.words[0].at[j] ^ 0x80808080U,
                                      keys.words[1].at[j] ^ 0x80808080U};
      std::int32_t dots[4] = {};
      multiply_16x8x32(dots, left, right);
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const float unit = query_scales[i / 2] * std::bit_cast<float>(keys.scales[i % 2].at[j]);
        scores[j][i] = std::fma(static_cast<float>(dots[i]), unit, scores[j][i]);
      }
    }
  }
}

// A page's scores or x in shared memory; `page` counts from the first that is there.
HEARTH_DEVICE void keep(PromptShared& shared, std::uint32_t page, const Scores& scores) {
  HEARTH_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    Words4 words{};
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) words.at[i] = std::bit_cast<std::uint32_t>(scores[j][i]);
    shared.pages.put((page * 4 + j) * 32 + thread_index() % 32, words);
  }
}

HEARTH_DEVICE void take(const PromptShared& shared, std::uint32_t page, Scores& scores) {
  HEARTH_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    const Words4 words = shared.pages.get((page * 4 + j) * 32 + thread_index() % 32);
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) scores[j][i] = std::bit_cast<float>(words.at[i]);
  }
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

// The largest of what the warps have for a row.
HEARTH_DEVICE std::uint32_t max_of_warps(const SharedArray<std::uint32_t, kWarps * kRows>& shared,
                                         std::uint32_t row) {
  std::uint32_t most = 0;
  HEARTH_UNROLL
  for (unsigned w = 0; w < kWarps; ++w) {
    const std::uint32_t one = shared.get(w * kRows + row);
    most = one > most ? one : most;
  }
  return most;
}

// First pass: the largest score of each row, as ordered() has it.
template <bool kKept>
HEARTH_DEVICE void find_maxima(const Args& args, const Work& work, PromptShared& shared) {
  const unsigned warp = thread_index() / 32;
  std::uint32_t maxima[2] = {};
  HEARTH_ROLL
  for (std::uint32_t p = work.first_page + warp; p < work.end_page; p += kWarps) {
    Scores scores;
    score_page(args, shared, page_of(args, work, p), scores);
    if (kKept) keep(shared, p - work.first_page, scores);
    const Seen seen = seen_of(work, p);
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const std::uint32_t order = ordered(scores[j][i]);
        if (seen.at(j, i) && order > maxima[i / 2]) maxima[i / 2] = order;
      }
    }
  }
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t most = max_of_lanes(maxima[r]);
    const std::uint32_t row = 8 * r + thread_index() % 32 / 4;
    if (thread_index() % 4 == 0) shared.maxima.put(warp * kRows + row, most);
  }
}

// The x of a page in place of its scores, zero where not visible. Adds to the denominators.
HEARTH_DEVICE void weigh(const Args& args, const Work& work, std::uint32_t p,
                         Global<const std::byte> page, const float (&maxima)[2], Scores& scores,
                         std::int64_t (&denominators)[2]) {
  const Global<const Words4> from = page.at(args.offsets.value_scales).as<const Words4>();
  const Words4 value_scales[2] = {from.get(thread_index() % 4 * 2),
                                  from.get(thread_index() % 4 * 2 + 1)};
  const Seen seen = seen_of(work, p);
  std::int32_t shares[2] = {};  // eight of at most 2^24
  HEARTH_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    HEARTH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const bool visible = seen.at(j, i);
      const float w = visible ? exp2_of(scores[j][i] - maxima[i / 2]) : 0.0F;
      shares[i / 2] += round_even(w * 0x1p24F);
      scores[j][i] = visible ? w * std::bit_cast<float>(value_scales[i % 2].at[j]) : 0.0F;
    }
  }
  denominators[0] += shares[0];
  denominators[1] += shares[1];
}

// Second pass: denominators, and the largest weighted value scales as bits.
template <bool kKept>
HEARTH_DEVICE void sum_weights(const Args& args, const Work& work, const float (&maxima)[2],
                               PromptShared& shared) {
  const unsigned warp = thread_index() / 32;
  std::uint32_t largest[2] = {};
  std::int64_t denominators[2] = {};
  HEARTH_ROLL
  for (std::uint32_t p = work.first_page + warp; p < work.end_page; p += kWarps) {
    const Global<const std::byte> page = page_of(args, work, p);
    Scores scores;
    if (kKept) {
      take(shared, p - work.first_page, scores);
    } else {
      score_page(args, shared, page, scores);
    }
    weigh(args, work, p, page, maxima, scores, denominators);
    if (kKept) keep(shared, p - work.first_page, scores);
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const std::uint32_t x = std::bit_cast<std::uint32_t>(scores[j][i]);
        if (x > largest[i / 2]) largest[i / 2] = x;
      }
    }
  }
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t most = max_of_lanes(largest[r]);
    const std::int64_t sum = sum_of_lanes(denominators[r]);
    const std::uint32_t row = 8 * r + thread_index() % 32 / 4;
    if (thread_index() % 4 != 0) continue;
    shared.largest.put(warp * kRows + row, most);
    shared.denominators.put(warp * kRows + row, sum);
  }
}

// The numbers of a lane's two rows over all they see.
struct Rows {
  float maxima[2];
  float largest[2];
  float to_integer[2];
};

// The P of the warp's pages from `first` on, as left operands of bytes: rows g and g + 8 with
// positions 8 c to 8 c + 3, then with the next four.
template <bool kKept>
HEARTH_DEVICE void place_weights(const Args& args, const Work& work, const Rows& rows,
                                 std::uint32_t first, std::uint32_t end, PromptShared& shared) {
  HEARTH_ROLL
  for (std::uint32_t p = first + thread_index() / 32; p < end; p += kWarps) {
    Scores x;
    if (kKept) {
      take(shared, p - first, x);
    } else {
      const Global<const std::byte> page = page_of(args, work, p);
      std::int64_t unused[2] = {};
      score_page(args, shared, page, x);
      weigh(args, work, p, page, rows.maxima, x, unused);
    }
    Words4 low{};
    Words4 high{};
    HEARTH_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const auto weight =
            static_cast<std::uint32_t>(round_even(x[j][i] * rows.to_integer[i / 2]));
        low.at[i / 2 + i % 2 * 2] |= (weight & 255U) << (8 * j);
        high.at[i / 2 + i % 2 * 2] |= (weight >> 8) << (8 * j);
      }
    }
    shared.pages.put((p - first) * 4 * 32 + thread_index() % 32, low);
    shared.pages.put(((p - first) * 4 + 1) * 32 + thread_index() % 32, high);
  }
}

// The dimensions of a warp, 32, and its share of the pages: every `slices`-th from `slice` on.
// Heads of more than 256 dimensions have blocks for each 256.
struct Part {
  std::uint32_t groups;  // of 32 dimensions, at once
  std::uint32_t group;
  std::uint32_t slices;
  std::uint32_t slice;
  bool there;
};

HEARTH_DEVICE Part part_of(const Args& args) {
  const unsigned warp = thread_index() / 32;
  const std::uint32_t all = args.head_dim / 32;
  Part part{};
  part.groups = all < kWarps ? all : kWarps;
  part.group = block_index_y() * kWarps + warp % part.groups;
  part.slices = kWarps / part.groups;
  part.slice = warp / part.groups;
  part.there = part.slice < part.slices && part.group < all;
  return part;
}

struct Sums {
  std::int32_t low[kTiles][4];
  std::int32_t high[kTiles][4];
};

HEARTH_DEVICE void add_values(const Args& args, const Work& work, const Part& part,
                              std::uint32_t first, std::uint32_t end, const PromptShared& shared,
                              Sums& sums) {
  const unsigned lane = thread_index() % 32;
  const std::uint32_t at = lane % 4 * 2 * (args.head_dim / 4) + part.group * 8 + lane / 4;
  HEARTH_ROLL
  for (std::uint32_t p = first + part.slice; p < end; p += part.slices) {
    const Global<const Words4> values =
        page_of(args, work, p).at(args.offsets.values).as<const Words4>();
    const Words4 words[2] = {values.get(at), values.get(at + args.head_dim / 4)};
    const Words4 low = shared.pages.get((p - first) * 4 * 32 + lane);
    const Words4 high = shared.pages.get(((p - first) * 4 + 1) * 32 + lane);
    HEARTH_UNROLL
    for (unsigned n = 0; n < kTiles; ++n) {
      const std::uint32_t right[2] = {words[0].at[n], words[1].at[n]};
      multiply_16x8x32_unsigned(sums.low[n], low.at, right);
      multiply_16x8x32_unsigned(sums.high[n], high.at, right);
    }
  }
}

// Adds the sums of the warps that share dimensions up in the first of them.
HEARTH_DEVICE void add_slices(const Part& part, PromptShared& shared, Sums& sums) {
  const unsigned lane = thread_index() % 32;
  const unsigned warp = thread_index() / 32;
  sync_threads();  // P is no longer needed
  if (part.there && part.slice != 0) {
    HEARTH_UNROLL
    for (unsigned k = 0; k < 2 * kTiles; ++k) {
      const std::int32_t(&from)[4] = k < kTiles ? sums.low[k % kTiles] : sums.high[k % kTiles];
      Words4 words{};
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) words.at[i] = static_cast<std::uint32_t>(from[i]);
      shared.pages.put((warp * 2 * kTiles + k) * 32 + lane, words);
    }
  }
  sync_threads();
  if (!part.there || part.slice != 0) return;
  for (std::uint32_t s = 1; s < part.slices; ++s) {
    const std::uint32_t other = warp + s * part.groups;
    HEARTH_UNROLL
    for (unsigned k = 0; k < 2 * kTiles; ++k) {
      std::int32_t(&to)[4] = k < kTiles ? sums.low[k % kTiles] : sums.high[k % kTiles];
      const Words4 words = shared.pages.get((other * 2 * kTiles + k) * 32 + lane);
      HEARTH_UNROLL
      for (unsigned i = 0; i < 4; ++i) to[i] += static_cast<std::int32_t>(words.at[i]);
    }
  }
}

HEARTH_DEVICE void write_rows(const Args& args, const Work& work, const Rows& rows,
                              const Part& part, const PromptShared& shared, const Sums& sums) {
  const Global<Words4> out = args.out.as<Words4>();
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const std::uint32_t row = 8 * r + thread_index() % 32 / 4;
    if (row >= work.rows) continue;
    std::int64_t denominator = 0;
    for (unsigned w = 0; w < kWarps; ++w) denominator += shared.denominators.get(w * kRows + row);
    const std::uint32_t token = (work.first_row + row) / work.group - work.first_token;
    const float largest = rows.largest[r];
    const bool zero = shared.refused.get(token) != 0 || largest < kTiny;
    const float factor =
        zero ? 0.0F : (largest / 65535.0F) / (static_cast<float>(denominator) * 0x1p-24F);
    const std::size_t at = head_of(args, work, work.first_row + row) * (args.head_dim / 4) +
                           part.group * 8 + thread_index() % 4 * 2;
    HEARTH_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      Words4 values{};
      HEARTH_UNROLL
      for (unsigned n = 0; n < kTiles; ++n) {
        const std::int64_t sum =
            std::int64_t{sums.high[n][2 * r + i]} * 256 + sums.low[n][2 * r + i];
        values.at[n] = std::bit_cast<std::uint32_t>(zero ? 0.0F : static_cast<float>(sum) * factor);
      }
      out.put(at + i, values);
    }
  }
}

// Third pass.
template <bool kKept>
HEARTH_DEVICE void sum_values(const Args& args, const Work& work, const Rows& rows,
                              PromptShared& shared) {
  const Part part = part_of(args);
  Sums sums = {};
  HEARTH_ROLL
  for (std::uint32_t first = work.first_page; first < work.end_page; first += kKeptPages) {
    const std::uint32_t end =
        first + kKeptPages < work.end_page ? first + kKeptPages : work.end_page;
    if (!kKept) sync_threads();  // the products of the pages before are done
    place_weights<kKept>(args, work, rows, first, end, shared);
    sync_threads();
    if (part.there) add_values(args, work, part, first, end, shared, sums);
  }
  if (part.slices > 1) add_slices(part, shared, sums);
  if (part.there && part.slice == 0) write_rows(args, work, rows, part, shared, sums);
}

template <bool kKept>
HEARTH_DEVICE void attend(const Args& args, const Work& work, PromptShared& shared) {
  find_maxima<kKept>(args, work, shared);
  sync_threads();
  Rows rows{};
  const std::uint32_t g = thread_index() % 32 / 4;
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    rows.maxima[r] = from_ordered(max_of_warps(shared.maxima, 8 * r + g));
  }
  sum_weights<kKept>(args, work, rows.maxima, shared);
  sync_threads();
  HEARTH_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const float largest = std::bit_cast<float>(max_of_warps(shared.largest, 8 * r + g));
    rows.largest[r] = largest;
    rows.to_integer[r] = to_integer_of(largest);
  }
  sum_values<kKept>(args, work, rows, shared);
}

HEARTH_KERNEL(kThreads, 2) attention_of_prompt(Args args) {
  wait_for_previous_kernel();
  PromptShared& shared = shared_memory<PromptShared>();
  const Work work = work_of(args);
  quantize_queries(args, work, shared);
  sync_threads();
  if (thread_index() < work.tokens && shared.refused.get(thread_index()) != 0) {
    atomic_or(args.failed, work.first_token + thread_index(), 1U);
  }
  if (work.end_page - work.first_page <= kKeptPages) {
    attend<true>(args, work, shared);
  } else {
    attend<false>(args, work, shared);
  }
}

}  // namespace

bool has_prompt_attention() {
#ifdef HEARTH_OPENCL
  return false;
#else
  return true;
#endif
}

Status attention_prompt(const AttentionRows& rows, std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_heads(rows));
  const std::uint32_t head_dim = rows.layout.head_dim;
  const std::uint32_t kv_heads = rows.layout.kv_heads;
  const std::uint32_t group = rows.heads / kv_heads;
  REQUIRE(group <= kPromptGroupMost, std::to_string(group) + " query heads a kv head; at most " +
                                         std::to_string(kPromptGroupMost) + " are supported");
  if (rows.tokens == 0) return ok_status();
  const std::uint32_t blocks = (rows.tokens * group + kRows - 1) / kRows;
  const std::uint32_t parts = (head_dim / 32 + kWarps - 1) / kWarps;  // of the dimensions
  const Args args{rows.tokens * group,
                  rows.heads,
                  kv_heads,
                  head_dim,
                  blocks,
                  page_offsets(head_dim),
                  rows.score_scale * kLog2E,
                  Global(rows.query),
                  Global(rows.pages),
                  Global(rows.begins),
                  Global(rows.ends),
                  Global(rows.out),
                  Global(failed)};
  return launched("attention_of_prompt",
                  launch_early(attention_of_prompt, {blocks * kv_heads, parts}, kThreads,
                               sizeof(PromptShared), stream, args));
}

}  // namespace hearth::kernels::cuda
