// Three kernels, because each of the later ones needs a number over the whole context: the largest
// score, and the largest weighted value scale. Each block takes eight pages of one token and kv
// head, for up to eight of the query heads that share it, so that a key or value is read once for
// all of them. Blocks exchange only maxima and integer sums, with atomics in any order.
//
//   scores    a warp a page, a lane a position: s_i, and m by an atomic maximum
//   weights   a thread a position: w_i, the denominator, x_i = w_i dv_i, and M
//   values    a thread a dimension: P_i and the sums of P_i q_v; the last block divides
#include <cmath>
#include <string>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/launched.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kSplitPages = 8;
constexpr std::uint32_t kSplit = kSplitPages * kPageTokens;
constexpr std::uint32_t kHeadsMost = 8;  // of a block
constexpr std::uint32_t kBlocksMost = kHeadDimMax / kBlock;
static_assert(kSplit == kThreads);

// The state of query heads between the kernels. Zero stands for "nothing yet" in every field.
struct State {
  Global<std::int64_t> denominators;  // (tokens, heads)
  Global<std::int64_t> sums;          // (tokens, heads, head_dim)
  Global<std::uint32_t> maxima;       // (tokens, heads): m as ordered() has it
  Global<std::uint32_t> largest;      // (tokens, heads): M as bits
  Global<std::uint32_t> refused;      // (tokens, heads): of each block's first head
  Global<std::uint32_t> tickets;      // (tokens, heads): of each block's first head
};

struct Args {
  std::uint32_t tokens;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::uint32_t chunks;  // of kHeadsMost query heads, of a kv head
  std::uint32_t splits;
  std::uint32_t positions_most;
  PageOffsets offsets;
  float factor;  // score_scale * log2(e)
  Global<const float> query;
  Global<const std::byte* const* const> pages;
  Global<const std::uint32_t> begins;
  Global<const std::uint32_t> ends;
  Global<float> scores;
  Global<float> out;
  Global<std::uint32_t> failed;
  State state;
};

// The work of a block.
struct Work {
  std::uint32_t token;
  std::uint32_t kv_head;
  std::uint32_t first_head;  // of the token's query heads
  std::uint32_t heads;
  std::uint32_t begin;  // of the token's visible positions
  std::uint32_t end;
  std::uint32_t first;  // position of the split, a multiple of a page
  std::size_t head_at;  // (token, first_head)
};

HEARTH_DEVICE Work work_of(const Args& args) {
  Work work{};
  const std::uint32_t group = args.heads / args.kv_heads;
  const std::uint32_t chunk = block_index_x() % args.chunks;
  const std::uint32_t pair = block_index_x() / args.chunks;
  work.token = pair / args.kv_heads;
  work.kv_head = pair % args.kv_heads;
  work.first_head = work.kv_head * group + chunk * kHeadsMost;
  const std::uint32_t left = group - chunk * kHeadsMost;
  work.heads = left < kHeadsMost ? left : kHeadsMost;
  work.begin = args.begins.get(work.token);
  work.end = args.ends.get(work.token);
  work.first = (work.begin / kPageTokens + block_index_y() * kSplitPages) * kPageTokens;
  work.head_at = std::size_t{work.token} * args.heads + work.first_head;
  return work;
}

HEARTH_DEVICE Global<const std::byte> page_of(const Args& args, const Work& work,
                                              std::uint32_t position) {
  const Global<const std::byte* const> table(args.pages.get(work.token));
  return Global(table.get(position / kPageTokens)).at(work.kv_head * args.offsets.head_bytes);
}

// Where the scores of a head of the chunk are.
HEARTH_DEVICE std::size_t scores_at(const Args& args, const Work& work, std::uint32_t head) {
  return (work.head_at + head) * args.positions_most + block_index_y() * kSplit;
}

struct QueryShared {
  SharedArray<std::uint32_t, kHeadsMost * kHeadDimMax / 4> values;
  SharedArray<float, kHeadsMost * kBlocksMost> scales;  // with score scale and log2(e) folded in
  SharedArray<std::uint32_t, kThreads / 32> largest;
};

// Whether the group of query heads may be read: all of the kv head's, not of this chunk alone.
HEARTH_DEVICE bool in_range(const Args& args, const Work& work, QueryShared& shared) {
  const std::uint32_t group = args.heads / args.kv_heads;
  const std::size_t at =
      (std::size_t{work.token} * args.heads + work.kv_head * group) * args.head_dim;
  std::uint32_t largest = 0;
  for (std::uint32_t i = thread_index(); i < group * args.head_dim; i += kThreads) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(args.query.get(at + i)) & 0x7FFFFFFFU;
    largest = bits > largest ? bits : largest;
  }
  largest = warp_max(largest);
  if (thread_index() % 32 == 0) shared.largest.put(thread_index() / 32, largest);
  sync_threads();
  for (unsigned w = 0; w < kThreads / 32; ++w) {
    const std::uint32_t other = shared.largest.get(w);
    largest = other > largest ? other : largest;
  }
  return largest <= std::bit_cast<std::uint32_t>(kAttentionMax);
}

// Quantises the chunk's queries, a warp a run of 32.
HEARTH_DEVICE void quantize_queries(const Args& args, const Work& work, QueryShared& shared) {
  const unsigned lane = thread_index() % 32;
  const std::uint32_t blocks = args.head_dim / kBlock;
  for (std::uint32_t i = thread_index() / 32; i < work.heads * blocks; i += kThreads / 32) {
    const float value = args.query.get((work.head_at * blocks + i) * kBlock + lane);
    float scale = 0.0F;
    const std::uint32_t word = quantize_run(value, args.factor, scale);
    if (lane % 4 == 0) shared.values.put(i * 8 + lane / 4, word);
    if (lane == 0) shared.scales.put(i, scale);
  }
}

// Scores of one position with every head of the chunk.
template <std::uint32_t kHeads>
HEARTH_DEVICE void score(const Args& args, const QueryShared& shared, Global<const std::byte> page,
                         std::uint32_t slot, float (&scores)[kHeads]) {
  const std::uint32_t blocks = args.head_dim / kBlock;
  const Global<const std::uint32_t> keys = page.as<const std::uint32_t>();
  const Global<const float> scales = page.at(args.offsets.key_scales).as<const float>();
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) scores[h] = 0.0F;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    std::uint32_t words[8];
    HEARTH_UNROLL
    for (std::uint32_t g = 0; g < 8; ++g) {
      const std::size_t quad = (slot / 16) * (args.head_dim / 4) + b * 8 + g;
      words[g] = keys.get(quad * 16 + slot % 16) ^ 0x80808080U;
    }
    const float key_scale = scales.get(((slot / 16) * blocks + b) * 16 + slot % 16);
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      std::int32_t dot = 0;
      HEARTH_UNROLL
      for (std::uint32_t g = 0; g < 8; ++g) {
        dot = dot_signed(shared.values.get((h * blocks + b) * 8 + g), words[g], dot);
      }
      const float unit = shared.scales.get(h * blocks + b) * key_scale;
      scores[h] = std::fma(static_cast<float>(dot), unit, scores[h]);
    }
  }
}

template <std::uint32_t kHeads>
HEARTH_DEVICE void score_split(const Args& args, const Work& work, const QueryShared& shared) {
  const std::uint32_t position = work.first + thread_index();
  const bool visible = position >= work.begin && position < work.end;
  float scores[kHeads];
  if (visible) {
    score<kHeads>(args, shared, page_of(args, work, position), position % kPageTokens, scores);
  }
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) {
    if (visible) args.scores.put(scores_at(args, work, h) + thread_index(), scores[h]);
    const std::uint32_t largest = warp_max(visible ? ordered(scores[h]) : 0U);
    if (largest != 0 && thread_index() % 32 == 0) {
      atomic_max(args.state.maxima, work.head_at + h, largest);
    }
  }
}

HEARTH_KERNEL(kThreads, 2) attention_scores_of(Args args) {
  const Work work = work_of(args);
  if (work.first >= work.end) return;
  QueryShared& shared = shared_memory<QueryShared>();
  if (!in_range(args, work, shared)) {
    if (thread_index() == 0) {
      atomic_or(args.failed, work.token, 1U);
      atomic_or(args.state.refused, work.head_at, 1U);
    }
    return;
  }
  quantize_queries(args, work, shared);
  sync_threads();
  switch (work.heads) {
    case 1: score_split<1>(args, work, shared); break;
    case 2: score_split<2>(args, work, shared); break;
    case 3: score_split<3>(args, work, shared); break;
    case 4: score_split<4>(args, work, shared); break;
    case 5: score_split<5>(args, work, shared); break;
    case 6: score_split<6>(args, work, shared); break;
    case 7: score_split<7>(args, work, shared); break;
    default: score_split<8>(args, work, shared); break;
  }
}

HEARTH_KERNEL(kThreads, 2) attention_weights(Args args) {
  const Work work = work_of(args);
  if (work.first >= work.end || args.state.refused.get(work.head_at) != 0) return;
  const std::uint32_t position = work.first + thread_index();
  const bool visible = position >= work.begin && position < work.end;
  float value_scale = 0.0F;
  if (visible) {
    const Global<const std::byte> page = page_of(args, work, position);
    value_scale = page.at(args.offsets.value_scales).as<const float>().get(position % kPageTokens);
  }
  for (std::uint32_t h = 0; h < work.heads; ++h) {
    const float maximum = from_ordered(args.state.maxima.get(work.head_at + h));
    const std::size_t at = scores_at(args, work, h) + thread_index();
    float x = 0.0F;
    std::int32_t share = 0;  // at most 2^24 each, so a warp's sum fits
    if (visible) {
      const float w = exp2_of(args.scores.get(at) - maximum);
      share = round_even(w * 0x1p24F);
      x = w * value_scale;
      args.scores.put(at, x);
    }
    share = warp_add(share);
    const std::uint32_t largest = warp_max(std::bit_cast<std::uint32_t>(x));
    if (thread_index() % 32 == 0) {
      if (share != 0) atomic_add(args.state.denominators, work.head_at + h, std::int64_t{share});
      if (largest != 0) atomic_max(args.state.largest, work.head_at + h, largest);
    }
  }
}

// The P of a split's positions as bytes, four positions a word: low halves and high halves.
struct ValuesShared {
  SharedArray<std::uint32_t, kHeadsMost * kSplit / 4> low;
  SharedArray<std::uint32_t, kHeadsMost * kSplit / 4> high;
  SharedArray<std::uint32_t, 1> last;
};

HEARTH_DEVICE void place_weights(const Args& args, const Work& work, ValuesShared& shared) {
  constexpr std::uint32_t quads = kSplit / 4;
  for (std::uint32_t i = thread_index(); i < work.heads * quads; i += block_threads()) {
    const std::uint32_t h = i / quads;
    const float largest = std::bit_cast<float>(args.state.largest.get(work.head_at + h));
    const bool zero = largest < kTiny;
    const float to_integer = zero ? 0.0F : 65535.0F / largest;
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    for (std::uint32_t j = 0; j < 4; ++j) {
      const std::uint32_t in_split = i % quads * 4 + j;
      const std::uint32_t position = work.first + in_split;
      if (zero || position < work.begin || position >= work.end) continue;
      const float x = args.scores.get(scores_at(args, work, h) + in_split);
      const auto p = static_cast<std::uint32_t>(round_even(x * to_integer));
      low |= (p & 255U) << (8 * j);
      high |= (p >> 8) << (8 * j);
    }
    shared.low.put(i, low);
    shared.high.put(i, high);
  }
}

// Sums of P q_v over the split for dimension d, over the quads of positions that are this part's.
template <std::uint32_t kHeads>
HEARTH_DEVICE void sum_values(const Args& args, const Work& work, ValuesShared& shared,
                              std::uint32_t d, std::uint32_t part, std::uint32_t parts) {
  std::int32_t low[kHeads] = {};  // 256 positions times 255 times 127 at most
  std::int32_t high[kHeads] = {};
  const std::uint32_t left = work.end - work.first;
  const std::uint32_t quads = ((left < kSplit ? left : kSplit) + 3) / 4;
  for (std::uint32_t quad = part; quad < quads; quad += parts) {
    const std::uint32_t position = work.first + quad * 4;
    if (position + 4 <= work.begin) continue;
    const std::uint32_t slot = position % kPageTokens;
    const std::uint32_t values = page_of(args, work, position)
                                     .at(args.offsets.values)
                                     .as<const std::uint32_t>()
                                     .get((slot / 4) * args.head_dim + d);
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      const std::uint32_t at = h * kSplit / 4 + quad;
      low[h] = dot_unsigned(shared.low.get(at), values, low[h]);
      high[h] = dot_unsigned(shared.high.get(at), values, high[h]);
    }
  }
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) {
    const std::int64_t sum = std::int64_t{high[h]} * 256 + low[h];
    if (sum != 0) atomic_add(args.state.sums, (work.head_at + h) * args.head_dim + d, sum);
  }
}

HEARTH_DEVICE void sum_split(const Args& args, const Work& work, ValuesShared& shared,
                             std::uint32_t d, std::uint32_t part, std::uint32_t parts) {
  switch (work.heads) {
    case 1: return sum_values<1>(args, work, shared, d, part, parts);
    case 2: return sum_values<2>(args, work, shared, d, part, parts);
    case 3: return sum_values<3>(args, work, shared, d, part, parts);
    case 4: return sum_values<4>(args, work, shared, d, part, parts);
    case 5: return sum_values<5>(args, work, shared, d, part, parts);
    case 6: return sum_values<6>(args, work, shared, d, part, parts);
    case 7: return sum_values<7>(args, work, shared, d, part, parts);
    default: return sum_values<8>(args, work, shared, d, part, parts);
  }
}

// The output of one query head from its sums; leaves the sums zero.
HEARTH_DEVICE void finish_head(const Args& args, std::size_t head, bool refused) {
  const float largest = std::bit_cast<float>(args.state.largest.get(head));
  const float denominator = static_cast<float>(args.state.denominators.get(head)) * 0x1p-24F;
  const bool zero = refused || largest < kTiny;
  const float r = zero ? 0.0F : (largest / 65535.0F) / denominator;
  for (std::uint32_t d = thread_index(); d < args.head_dim; d += block_threads()) {
    const std::size_t at = head * args.head_dim + d;
    const std::int64_t sum = atomic_exchange(args.state.sums, at, std::int64_t{0});
    args.out.put(at, zero ? 0.0F : static_cast<float>(sum) * r);
  }
}

// The block of a token and chunk that ends last turns sums into the output and clears the state.
HEARTH_DEVICE void finish(const Args& args, const Work& work, ValuesShared& shared) {
  fence_device();
  sync_threads();
  if (thread_index() == 0) {
    const std::uint32_t before = atomic_add(args.state.tickets, work.head_at, 1U);
    shared.last.put(0, before + 1 == args.splits ? 1U : 0U);
  }
  sync_threads();
  if (shared.last.get(0) == 0) return;
  fence_device();
  const bool refused = args.state.refused.get(work.head_at) != 0;
  for (std::uint32_t h = 0; h < work.heads; ++h) finish_head(args, work.head_at + h, refused);
}

HEARTH_KERNEL(kHeadDimMax, 1) attention_values(Args args) {
  const Work work = work_of(args);
  ValuesShared& shared = shared_memory<ValuesShared>();
  if (work.first < work.end && args.state.refused.get(work.head_at) == 0) {
    place_weights(args, work, shared);
    sync_threads();
    sum_split(args, work, shared, thread_index() % args.head_dim, thread_index() / args.head_dim,
              block_threads() / args.head_dim);
  }
  finish(args, work, shared);
}

// Resets the memory that the kernels share to zero; one thread for each query head.
HEARTH_KERNEL(kThreads, 1) attention_clear(Args args) {
  const std::size_t head = std::size_t{block_index_x()} * kThreads + thread_index();
  if (head >= std::size_t{args.tokens} * args.heads) return;
  args.state.denominators.put(head, 0);
  args.state.maxima.put(head, 0U);
  args.state.largest.put(head, 0U);
  args.state.refused.put(head, 0U);
  args.state.tickets.put(head, 0U);
}

State state_in(std::byte* memory, std::size_t heads, std::uint32_t head_dim) {
  auto* wide = reinterpret_cast<std::int64_t*>(memory);
  auto* narrow = reinterpret_cast<std::uint32_t*>(wide + heads * (1 + std::size_t{head_dim}));
  return {Global(wide),           Global(wide + heads),       Global(narrow),
          Global(narrow + heads), Global(narrow + 2 * heads), Global(narrow + 3 * heads)};
}

}  // namespace

std::size_t attention_scores(std::uint32_t tokens, std::uint32_t heads, std::uint32_t pages_most) {
  const std::uint32_t splits = (pages_most + kSplitPages - 1) / kSplitPages;
  return std::size_t{tokens} * heads * splits * kSplit;
}

std::size_t attention_state_bytes(std::uint32_t tokens, std::uint32_t heads,
                                  std::uint32_t head_dim) {
  return std::size_t{tokens} * heads * ((1 + std::size_t{head_dim}) * 8 + 4 * 4);
}

Status attention(const AttentionRows& rows, const AttentionSpace& space, std::uint32_t* failed,
                 Stream stream) {
  const std::uint32_t head_dim = rows.layout.head_dim;
  const std::uint32_t kv_heads = rows.layout.kv_heads;
  TRY_VOID(check_heads(rows));
  if (rows.tokens == 0) return ok_status();
  REQUIRE(rows.pages_most != 0, "attention over no pages");
  const std::uint32_t splits = (rows.pages_most + kSplitPages - 1) / kSplitPages;
  const std::uint32_t chunks = (rows.heads / kv_heads + kHeadsMost - 1) / kHeadsMost;
  const std::size_t heads = std::size_t{rows.tokens} * rows.heads;
  const Args args{rows.tokens,
                  rows.heads,
                  kv_heads,
                  head_dim,
                  chunks,
                  splits,
                  splits * kSplit,
                  page_offsets(head_dim),
                  rows.score_scale * kLog2E,
                  Global(rows.query),
                  Global(rows.pages),
                  Global(rows.begins),
                  Global(rows.ends),
                  Global(space.scores),
                  Global(rows.out),
                  Global(failed),
                  state_in(space.state, heads, head_dim)};
  const Grid grid{rows.tokens * kv_heads * chunks, splits};
  const unsigned parts = head_dim < kThreads ? kThreads / head_dim : 1;
  TRY_VOID(launched("attention_scores_of", launch(attention_scores_of, grid, kThreads,
                                                  sizeof(QueryShared), stream, args)));
  TRY_VOID(
      launched("attention_weights", launch(attention_weights, grid, kThreads, 0, stream, args)));
  TRY_VOID(launched("attention_values", launch(attention_values, grid, head_dim * parts,
                                               sizeof(ValuesShared), stream, args)));
  const auto blocks = static_cast<unsigned>((heads + kThreads - 1) / kThreads);
  return launched("attention_clear",
                  launch(attention_clear, {blocks, 1}, kThreads, 0, stream, args));
}

}  // namespace hearth::kernels::cuda
