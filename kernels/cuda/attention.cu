// Blocks take pages of one token and kv head, for up to eight of the query heads that share it, so
// that a key or value is read once for all of them. The weights need a number over the whole
// context, the largest score, and the sums another, the largest weighted value scale. Hence three
// passes:
//
//   scores    a warp a page, a lane a position: s_i, and m
//   weights   the same: w_i, the denominator, x_i = w_i dv_i, and M
//   values    P_i, four positions a word; then a thread a dimension: the sums of P_i q_v
//
// A short context is one block's, which keeps s_i, x_i and P_i in shared memory: one launch, and
// barriers of the block between the passes. A long one is split every eight pages, and each pass is
// a launch. Its blocks exchange only maxima and integer sums, with atomics in any order; the last
// block to end divides.
#include <cmath>
#include <string>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/launched.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;      // where a block takes a split for a pass
constexpr unsigned kWideThreads = 512;  // where it adds values
constexpr unsigned kWarpsMost = kWideThreads / 32;
constexpr std::uint32_t kSplitPages = 8;
constexpr std::uint32_t kSplit = kSplitPages * kPageTokens;
constexpr std::uint32_t kHeadsMost = 8;  // of a block
constexpr std::uint32_t kBlocksMost = kHeadDimMax / kBlock;
static_assert(kSplit == kThreads);

// A context for one block. Beyond kWholeSplits its one multiprocessor takes longer than three
// launches that use many, unless there are kWholeBlocks to keep all of them busy.
// OpenCL has only the three: drivers compile at run time, and some take minutes for the one.
#ifdef HEARTH_OPENCL
constexpr bool kHasWhole = false;
#else
constexpr bool kHasWhole = true;
#endif
constexpr std::uint32_t kWholePositions = 2048;
constexpr std::uint32_t kWholeWords = 4 * kWholePositions;
constexpr std::uint32_t kWholeSplits = 4;
constexpr std::uint32_t kWholeBlocks = 96;
constexpr std::uint32_t kWholeStep = 2;  // pages of values under way of each part
static_assert(2 * kHeadsMost * kHeadDimMax <= kWholeWords, "the sums lie where P was");

// Positions that fit a block with so many query heads.
HEARTH_SHARED constexpr std::uint32_t whole_positions(std::uint32_t heads) {
  return heads <= 4 ? kWholePositions : kWholePositions / 2;
}

// What the launches of a call exchange. The state is zero before and after every call. The rest
// lies behind the scores, and the first launch sets it.
struct State {
  Global<std::int64_t> sums;          // (tokens, heads, head_dim)
  Global<std::uint32_t> maxima;       // (tokens, heads): m as ordered() has it
  Global<std::uint32_t> tickets;      // (tokens, heads): of each block's first head
  Global<std::int64_t> denominators;  // from here on as scores: (tokens, heads)
  Global<std::uint32_t> largest;      // (tokens, heads): M as bits
  Global<std::uint32_t> refused;      // (tokens, heads): of each block's first head
};

struct Args {
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::uint32_t chunks;          // of kHeadsMost query heads, of a kv head
  std::uint32_t whole_pages;     // of a block that takes a whole context, at most
  std::uint32_t positions_most;  // scores of a query head
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
  std::uint32_t first;    // position of the first page
  std::uint32_t pages;    // 0: the block is beyond the visible positions
  std::uint32_t blocks;   // that have pages of the same token and heads; at least the first
  std::uint32_t head_at;  // (token, first_head)
  Global<const std::byte* const> table;
  HEARTH_DEVICE bool visible(std::uint32_t position) const {
    return position >= begin && position < end;
  }
};

// A block takes `most` pages.
HEARTH_DEVICE Work work_of(const Args& args, std::uint32_t most) {
  Work work{};
  const std::uint32_t group = args.heads / args.kv_heads;
  const std::uint32_t chunk = block_index_x() % args.chunks;
  const std::uint32_t pair = block_index_x() / args.chunks;
  work.token = pair / args.kv_heads;
  work.kv_head = pair % args.kv_heads;
  work.first_head = work.kv_head * group + chunk * kHeadsMost;
  const std::uint32_t left = group - chunk * kHeadsMost;
  work.heads = left < kHeadsMost ? left : kHeadsMost;
  work.head_at = work.token * args.heads + work.first_head;
  work.begin = args.begins.get(work.token);
  work.end = args.ends.get(work.token);
  work.table = Global<const std::byte* const>(args.pages.get(work.token));
  const std::uint32_t first_page = work.begin / kPageTokens;
  const std::uint32_t end_page =
      work.begin < work.end ? (work.end + kPageTokens - 1) / kPageTokens : first_page;
  const std::uint32_t all = end_page - first_page;
  const std::uint32_t skipped = block_index_y() * most;
  const std::uint32_t mine = all > skipped ? all - skipped : 0;
  work.blocks = all == 0 ? 1 : (all + most - 1) / most;
  work.first = (first_page + skipped) * kPageTokens;
  work.pages = mine < most ? mine : most;
  return work;
}

// Page `p` of the block's, its kv head.
HEARTH_DEVICE Global<const std::byte> page_of(const Args& args, const Work& work, std::uint32_t p) {
  return Global(work.table.get(work.first / kPageTokens + p))
      .at(work.kv_head * args.offsets.head_bytes);
}

HEARTH_DEVICE float value_scale_of(const Args& args, Global<const std::byte> page,
                                   std::uint32_t slot) {
  return page.at(args.offsets.value_scales).as<const float>().get(slot);
}

// Where the scores of a head of the chunk are.
HEARTH_DEVICE std::size_t scores_at(const Args& args, const Work& work, std::uint32_t head) {
  return std::size_t{work.head_at + head} * args.positions_most + block_index_y() * kSplit;
}

struct QueryShared {
  SharedArray<std::uint32_t, kHeadsMost * kHeadDimMax / 4> values;
  SharedArray<float, kHeadsMost * kBlocksMost> scales;  // with score scale and log2(e) folded in
  SharedArray<std::uint32_t, kWarpsMost> largest;
};

// Quantises the chunk's queries, a warp a run of 32, and waits for all of them. Whether the group
// of query heads may be read: all of the kv head's, not of this chunk alone.
HEARTH_DEVICE bool quantize_queries(const Args& args, const Work& work, QueryShared& shared) {
  const unsigned lane = thread_index() % 32;
  const unsigned warps = block_threads() / 32;
  const std::uint32_t blocks = args.head_dim / kBlock;
  const std::uint32_t group = args.heads / args.kv_heads;
  const std::uint32_t skipped = (work.first_head - work.kv_head * group) * blocks;
  const std::size_t at = (std::size_t{work.head_at} * blocks - skipped) * kBlock + lane;
  std::uint32_t largest = 0;
  for (std::uint32_t i = thread_index() / 32; i < group * blocks; i += warps) {
    const float value = args.query.get(at + i * kBlock);
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
    largest = bits > largest ? bits : largest;
    const std::uint32_t run = i - skipped;
    if (i < skipped || run >= work.heads * blocks) continue;
    float scale = 0.0F;
    const std::uint32_t word = quantize_run(value, args.factor, scale);
    if (lane % 4 == 0) shared.values.put(run * 8 + lane / 4, word);
    if (lane == 0) shared.scales.put(run, scale);
  }
  largest = warp_max(largest);
  if (lane == 0) shared.largest.put(thread_index() / 32, largest);
  sync_threads();
  largest = warp_max(lane < warps ? shared.largest.get(lane) : 0U);
  return largest <= std::bit_cast<std::uint32_t>(kAttentionMax);
}

// 32 dimensions of a position's key.
struct KeyBlock {
  std::uint32_t words[8];
  float scale;
};

HEARTH_DEVICE KeyBlock key_block(const Args& args, Global<const std::byte> page, std::uint32_t slot,
                                 std::uint32_t b) {
  const Global<const std::uint32_t> keys = page.as<const std::uint32_t>();
  const Global<const float> scales = page.at(args.offsets.key_scales).as<const float>();
  const std::uint32_t quad = slot / 16 * (args.head_dim / 4) + b * 8;
  KeyBlock block{};
  HEARTH_UNROLL
  for (std::uint32_t g = 0; g < 8; ++g) block.words[g] = keys.get((quad + g) * 16 + slot % 16);
  block.scale = scales.get((slot / 16 * (args.head_dim / kBlock) + b) * 16 + slot % 16);
  return block;
}

// The first 64 dimensions of a position's key.
struct FirstKeys {
  KeyBlock a;
  KeyBlock b;
};

HEARTH_DEVICE FirstKeys first_keys(const Args& args, Global<const std::byte> page,
                                   std::uint32_t slot) {
  const std::uint32_t second = args.head_dim == kBlock ? 0 : 1;
  return {key_block(args, page, slot, 0), key_block(args, page, slot, second)};
}

// Scores of one position with kHeads of the chunk from `first` on. Two blocks of the key are always
// under way: the last is read more than once, from the cache, so that no load hangs on a branch.
template <std::uint32_t kHeads>
HEARTH_DEVICE void score(const Args& args, QueryShared& shared, Global<const std::byte> page,
                         std::uint32_t slot, FirstKeys keys, std::uint32_t first,
                         float (&scores)[kHeads]) {
  const std::uint32_t blocks = args.head_dim / kBlock;
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) scores[h] = 0.0F;
  HEARTH_ROLL
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const KeyBlock next = key_block(args, page, slot, b + 2 < blocks ? b + 2 : blocks - 1);
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      std::int32_t dot = 0;
      HEARTH_UNROLL
      for (std::uint32_t g = 0; g < 8; g += 4) {
        const Words4 query = get_four(shared.values, ((first + h) * blocks + b) * 8 + g);
        HEARTH_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) {
          dot = dot_signed(query.at[i], keys.a.words[g + i] ^ 0x80808080U, dot);
        }
      }
      const float unit = shared.scales.get((first + h) * blocks + b) * keys.a.scale;
      scores[h] = std::fma(static_cast<float>(dot), unit, scores[h]);
    }
    keys = {keys.b, next};
  }
}

// A thread's dimension of the values of some pages, four positions a word.
constexpr std::uint32_t kQuads = kPageTokens / 4;
template <std::uint32_t kPages>
struct ValueWords {
  std::uint32_t at[kPages * kQuads];
};

// The threads of a block that add values: a dimension each, `parts` times over, and the parts take
// kPages pages each in turn. Threads beyond the last part have none.
struct Lane {
  std::uint32_t d;
  std::uint32_t part;
  std::uint32_t parts;
  std::uint32_t pages;  // the block's, or none
};

HEARTH_DEVICE Lane lane_of(const Args& args, const Work& work) {
  Lane lane{};
  lane.d = thread_index() % args.head_dim;
  lane.part = thread_index() / args.head_dim;
  lane.parts = kWideThreads / args.head_dim;
  lane.pages = lane.part < lane.parts ? work.pages : 0;
  return lane;
}

template <std::uint32_t kPages>
HEARTH_DEVICE ValueWords<kPages> value_words(const Args& args, const Work& work, const Lane& lane,
                                             std::uint32_t p) {
  ValueWords<kPages> words{};
  HEARTH_UNROLL
  for (std::uint32_t k = 0; k < kPages; ++k) {
    if (p + k >= lane.pages) continue;
    Global<const std::uint32_t> values =
        page_of(args, work, p + k).at(args.offsets.values).as<const std::uint32_t>().at(lane.d);
    HEARTH_UNROLL
    for (std::uint32_t q = 0; q < kQuads; ++q) {
      words.at[k * kQuads + q] = values.get(0);
      values = values.at(args.head_dim);  // one address to keep, not eight
    }
  }
  return words;
}

// [head][position]: s_i, then x_i, as bits; then, of every eight positions, the P as bytes: the low
// halves of four positions a word, their high halves, and the same of the next four.
using Words = SharedArray<std::uint32_t, kWholeWords>;

struct ValuesShared {
  Words words;
  SharedArray<std::uint32_t, 1> last;
};

// Adds what the thread has of the block's pages, for heads from `first` on. `words`: its first
// kPages; of more than one at a time the next are on their way while it adds.
template <std::uint32_t kHeads, std::uint32_t kPages>
HEARTH_DEVICE void add_values(const Args& args, const Work& work, const Lane& lane,
                              std::uint32_t first, ValueWords<kPages> words, Words& shared,
                              std::int32_t (&low)[kHeads], std::int32_t (&high)[kHeads]) {
  constexpr std::uint32_t stride = kPages == 1 ? kSplit : whole_positions(kHeads);
  const std::uint32_t step = kPages * lane.parts;
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) low[h] = high[h] = 0;
  HEARTH_ROLL
  for (std::uint32_t p = kPages * lane.part; p < lane.pages; p += step) {
    ValueWords<kPages> next{};
    if (kPages > 1) next = value_words<kPages>(args, work, lane, p + step);
    HEARTH_UNROLL
    for (std::uint32_t q = 0; q < kPages * kQuads; q += 2) {
      if (p + q / kQuads >= lane.pages) continue;
      HEARTH_UNROLL
      for (std::uint32_t h = 0; h < kHeads; ++h) {
        const Words4 weights = get_four(shared, (first + h) * stride + p * kPageTokens + q * 4);
        low[h] = dot_unsigned(weights.at[0], words.at[q], low[h]);
        high[h] = dot_unsigned(weights.at[1], words.at[q], high[h]);
        low[h] = dot_unsigned(weights.at[2], words.at[q + 1], low[h]);
        high[h] = dot_unsigned(weights.at[3], words.at[q + 1], high[h]);
      }
    }
    if (kPages == 1) next = value_words<kPages>(args, work, lane, p + step);
    words = next;
  }
}

// ---- A context for one block.

struct WholeShared {
  Words words;
  SharedArray<std::uint32_t, kHeadsMost * kWarpsMost> maxima;  // [head][warp]: m so far
  SharedArray<std::uint32_t, kHeadsMost * kWarpsMost> largest;
  SharedArray<std::int64_t, kHeadsMost * kWarpsMost> denominators;
  SharedArray<float, kWholePositions> value_scales;
  QueryShared query;
};
static_assert(sizeof(WholeShared) <= 48 * 1024);

// The largest of what the warps have found for a head.
HEARTH_DEVICE std::uint32_t max_of_warps(
    SharedArray<std::uint32_t, kHeadsMost * kWarpsMost>& shared, std::uint32_t head) {
  std::uint32_t most = 0;
  HEARTH_UNROLL
  for (unsigned w = 0; w < kWarpsMost; w += 4) {
    const Words4 four = get_four(shared, head * kWarpsMost + w);
    HEARTH_UNROLL
    for (const std::uint32_t one : four.at) most = one > most ? one : most;
  }
  return most;
}

// Scores of position `at` of the block with kCount heads from kFirst on, in shared.words. No more
// than four at a time, for the registers' sake.
template <std::uint32_t kFirst, std::uint32_t kCount, std::uint32_t kHeads>
HEARTH_DEVICE void keep_scores(const Args& args, Global<const std::byte> page,
                               const FirstKeys& keys, std::uint32_t at, bool visible,
                               WholeShared& shared, std::uint32_t (&most)[kHeads]) {
  float scores[kCount];
  score<kCount>(args, shared.query, page, at % kPageTokens, keys, kFirst, scores);
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kCount; ++h) {
    shared.words.put((kFirst + h) * whole_positions(kHeads) + at,
                     std::bit_cast<std::uint32_t>(scores[h]));
    const std::uint32_t order = visible ? ordered(scores[h]) : 0U;
    most[kFirst + h] = order > most[kFirst + h] ? order : most[kFirst + h];
  }
}

// Scores and weights of all pages. `page` and `keys`: of the warp's first.
template <std::uint32_t kHeads>
HEARTH_DEVICE void weigh_pages(const Args& args, const Work& work, Global<const std::byte> page,
                               FirstKeys keys, WholeShared& shared) {
  constexpr std::uint32_t stride = whole_positions(kHeads);
  const unsigned warp = thread_index() / 32;
  const unsigned lane = thread_index() % 32;
  std::uint32_t most[kHeads] = {};
  HEARTH_ROLL
  for (std::uint32_t p = warp; p < work.pages; p += kWarpsMost) {
    if (p != warp) {
      page = page_of(args, work, p);
      keys = first_keys(args, page, lane);
    }
    const float value_scale = value_scale_of(args, page, lane);
    const std::uint32_t at = p * kPageTokens + lane;
    const bool visible = work.visible(work.first + at);
    shared.value_scales.put(at, value_scale);
    keep_scores<0, kHeads <= 4 ? kHeads : 4>(args, page, keys, at, visible, shared, most);
    if constexpr (kHeads > 4) {
      keys = first_keys(args, page, lane);
      keep_scores<4, kHeads - 4>(args, page, keys, at, visible, shared, most);
    }
  }
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) {
    const std::uint32_t of_warp = warp_max(most[h]);
    if (lane == 0) shared.maxima.put(h * kWarpsMost + warp, of_warp);
    most[h] = 0;
  }
  sync_threads();
  std::int32_t shares[kHeads] = {};  // of the lane's positions, at most four of 2^24 each
  float maxima[kHeads];
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h)
    maxima[h] = from_ordered(max_of_warps(shared.maxima, h));
  HEARTH_ROLL
  for (std::uint32_t p = warp; p < work.pages; p += kWarpsMost) {
    const std::uint32_t at = p * kPageTokens + lane;
    const bool visible = work.visible(work.first + at);
    const float scale = shared.value_scales.get(at);
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      const float s = std::bit_cast<float>(shared.words.get(h * stride + at));
      const float w = visible ? exp2_of(s - maxima[h]) : 0.0F;
      const std::uint32_t x = visible ? std::bit_cast<std::uint32_t>(w * scale) : 0U;
      shares[h] += round_even(w * 0x1p24F);
      most[h] = x > most[h] ? x : most[h];
      shared.words.put(h * stride + at, x);
    }
  }
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) {
    const std::uint32_t of_warp = warp_max(most[h]);
    // In two parts, since all of 32 lanes may reach 2^31.
    const std::int64_t sum = std::int64_t{warp_add(shares[h] >> 1)} * 2 + warp_add(shares[h] & 1);
    if (lane != 0) continue;
    shared.largest.put(h * kWarpsMost + warp, of_warp);
    shared.denominators.put(h * kWarpsMost + warp, sum);
  }
}

HEARTH_DEVICE void weigh_block(const Args& args, const Work& work, Global<const std::byte> page,
                               const FirstKeys& keys, WholeShared& shared) {
  switch (work.heads) {
    case 1: return weigh_pages<1>(args, work, page, keys, shared);
    case 2: return weigh_pages<2>(args, work, page, keys, shared);
    case 3: return weigh_pages<3>(args, work, page, keys, shared);
    case 4: return weigh_pages<4>(args, work, page, keys, shared);
    case 5: return weigh_pages<5>(args, work, page, keys, shared);
    case 6: return weigh_pages<6>(args, work, page, keys, shared);
    case 7: return weigh_pages<7>(args, work, page, keys, shared);
    default: return weigh_pages<8>(args, work, page, keys, shared);
  }
}

template <std::uint32_t kHeads>
HEARTH_DEVICE void place_whole(const Work& work, WholeShared& shared) {
  const std::uint32_t eights = work.pages * (kPageTokens / 8);
  HEARTH_ROLL
  for (std::uint32_t i = thread_index(); i < kHeads * eights; i += kWideThreads) {
    const std::uint32_t h = i / eights;
    const std::uint32_t at = h * whole_positions(kHeads) + i % eights * 8;
    const Words4 x[2] = {get_four(shared.words, at), get_four(shared.words, at + 4)};
    put_four(shared.words, at,
             weights_of(x, to_integer_of(std::bit_cast<float>(max_of_warps(shared.largest, h)))));
  }
}

// P of all pages, then the sums of all parts where P was: of the low halves and, kHeads * head_dim
// further on, of the high.
template <std::uint32_t kHeads>
HEARTH_DEVICE void sum_pages(const Args& args, const Work& work, const Lane& lane,
                             const ValueWords<kWholeStep>& words, WholeShared& whole) {
  place_whole<kHeads>(work, whole);
  sync_threads();
  Words& shared = whole.words;
  std::int32_t low[kHeads];  // kWholePositions times 255 times 127 at most
  std::int32_t high[kHeads];
  add_values(args, work, lane, 0, words, shared, low, high);
  const std::uint32_t half = kHeads * args.head_dim;
  sync_threads();
  if (lane.part == 0) {
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      shared.put(h * args.head_dim + lane.d, static_cast<std::uint32_t>(low[h]));
      shared.put(half + h * args.head_dim + lane.d, static_cast<std::uint32_t>(high[h]));
    }
  }
  sync_threads();
  if (lane.part != 0 && kWholeStep * lane.part < lane.pages) {
    HEARTH_UNROLL
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      const std::size_t at = h * args.head_dim + lane.d;
      atomic_add(shared, at, static_cast<std::uint32_t>(low[h]));
      atomic_add(shared, half + at, static_cast<std::uint32_t>(high[h]));
    }
  }
  sync_threads();
}

HEARTH_DEVICE void sum_block(const Args& args, const Work& work, const Lane& lane,
                             const ValueWords<kWholeStep>& words, WholeShared& shared) {
  switch (work.heads) {
    case 1: return sum_pages<1>(args, work, lane, words, shared);
    case 2: return sum_pages<2>(args, work, lane, words, shared);
    case 3: return sum_pages<3>(args, work, lane, words, shared);
    case 4: return sum_pages<4>(args, work, lane, words, shared);
    case 5: return sum_pages<5>(args, work, lane, words, shared);
    case 6: return sum_pages<6>(args, work, lane, words, shared);
    case 7: return sum_pages<7>(args, work, lane, words, shared);
    default: return sum_pages<8>(args, work, lane, words, shared);
  }
}

HEARTH_KERNEL(kWideThreads, 1) attention_whole(Args args) {
  wait_for_previous_kernel();
  const Work work = work_of(args, args.whole_pages);
  WholeShared& shared = shared_memory<WholeShared>();
  const Lane lane = lane_of(args, work);
  const std::uint32_t warp = thread_index() / 32;
  // Loads go out before what they would otherwise wait for.
  Global<const std::byte> page;
  FirstKeys keys{};
  if (warp < work.pages) {
    page = page_of(args, work, warp);
    keys = first_keys(args, page, thread_index() % 32);
  }
  const ValueWords<kWholeStep> words =
      value_words<kWholeStep>(args, work, lane, kWholeStep * lane.part);
  const bool refused = !quantize_queries(args, work, shared.query);
  if (refused || work.pages == 0) {
    if (work.pages != 0 && thread_index() == 0) atomic_or(args.failed, work.token, 1U);
    for (std::uint32_t i = thread_index(); i < work.heads * args.head_dim; i += kWideThreads) {
      args.out.put(std::size_t{work.head_at} * args.head_dim + i, 0.0F);
    }
    return;
  }
  weigh_block(args, work, page, keys, shared);
  sync_threads();
  sum_block(args, work, lane, words, shared);
  for (std::uint32_t i = thread_index(); i < work.heads * args.head_dim; i += kWideThreads) {
    const std::uint32_t h = i / args.head_dim;
    const auto low = static_cast<std::int32_t>(shared.words.get(i));
    const auto high = static_cast<std::int32_t>(shared.words.get(work.heads * args.head_dim + i));
    std::int64_t denominator = 0;
    HEARTH_UNROLL
    for (unsigned w = 0; w < kWarpsMost; ++w) {
      denominator += shared.denominators.get(h * kWarpsMost + w);
    }
    args.out.put(
        std::size_t{work.head_at} * args.head_dim + i,
        output_of(std::int64_t{high} * 256 + low,
                  std::bit_cast<float>(max_of_warps(shared.largest, h)), denominator, false));
  }
}

// ---- A context in splits.

template <std::uint32_t kHeads>
HEARTH_DEVICE void score_heads(const Args& args, const Work& work, QueryShared& shared,
                               Global<const std::byte> page, const FirstKeys& keys,
                               std::uint32_t first) {
  const bool there = thread_index() / 32 < work.pages;
  const bool visible = there && work.visible(work.first + thread_index());
  float scores[kHeads];
  if (there) score<kHeads>(args, shared, page, thread_index() % 32, keys, first, scores);
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) {
    if (there) args.scores.put(scores_at(args, work, first + h) + thread_index(), scores[h]);
    const std::uint32_t largest = warp_max(visible ? ordered(scores[h]) : 0U);
    if (largest != 0 && thread_index() % 32 == 0) {
      atomic_max(args.state.maxima, work.head_at + first + h, largest);
    }
  }
}

// Four heads at a time: the registers of eight would leave room for few blocks on a multiprocessor.
// The keys, and in the third pass the values, then come from the cache.
HEARTH_DEVICE void score_split(const Args& args, const Work& work, QueryShared& shared,
                               Global<const std::byte> page, FirstKeys keys) {
  for (std::uint32_t first = 0; first < work.heads; first += 4) {
    if (first != 0 && thread_index() / 32 < work.pages) {
      keys = first_keys(args, page, thread_index() % 32);
    }
    switch (work.heads - first) {
      case 1: score_heads<1>(args, work, shared, page, keys, first); break;
      case 2: score_heads<2>(args, work, shared, page, keys, first); break;
      case 3: score_heads<3>(args, work, shared, page, keys, first); break;
      default: score_heads<4>(args, work, shared, page, keys, first); break;
    }
  }
}

// Sets what the later launches add to, and whether they have anything to add.
HEARTH_DEVICE void begin_heads(const Args& args, const Work& work, bool refused) {
  if (block_index_y() != 0 || thread_index() >= work.heads) return;
  const std::size_t head = work.head_at + thread_index();
  args.state.denominators.put(head, 0);
  args.state.largest.put(head, 0U);
  if (thread_index() != 0) return;
  args.state.refused.put(head, refused ? 1U : 0U);
  if (refused) atomic_or(args.failed, work.token, 1U);
}

HEARTH_KERNEL(kThreads, 3) attention_scores_of(Args args) {
  wait_for_previous_kernel();
  const Work work = work_of(args, kSplitPages);
  if (work.pages == 0) return begin_heads(args, work, false);
  QueryShared& shared = shared_memory<QueryShared>();
  Global<const std::byte> page;
  FirstKeys keys{};
  if (thread_index() / 32 < work.pages) {
    page = page_of(args, work, thread_index() / 32);
    keys = first_keys(args, page, thread_index() % 32);
  }
  const bool refused = !quantize_queries(args, work, shared);
  begin_heads(args, work, refused);
  if (refused) return;
  score_split(args, work, shared, page, keys);
}

// Positions of the split's pages that are not visible get an x of zero. All loads go out before the
// first store, which they would otherwise have to wait for.
HEARTH_KERNEL(kThreads, 2) attention_weights(Args args) {
  wait_for_previous_kernel();
  const Work work = work_of(args, kSplitPages);
  if (thread_index() / 32 >= work.pages || args.state.refused.get(work.head_at) != 0) return;
  const bool visible = work.visible(work.first + thread_index());
  float scores[kHeadsMost];
  std::uint32_t maxima[kHeadsMost];
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeadsMost; ++h) {
    const bool there = h < work.heads;
    scores[h] = there ? args.scores.get(scores_at(args, work, h) + thread_index()) : 0.0F;
    maxima[h] = there ? args.state.maxima.get(work.head_at + h) : 0U;
  }
  const float value_scale =
      value_scale_of(args, page_of(args, work, thread_index() / 32), thread_index() % 32);
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeadsMost; ++h) {
    if (h >= work.heads) continue;
    const float w = visible ? exp2_of(scores[h] - from_ordered(maxima[h])) : 0.0F;
    const float x = visible ? w * value_scale : 0.0F;
    args.scores.put(scores_at(args, work, h) + thread_index(), x);
    const std::int32_t share = warp_add(round_even(w * 0x1p24F));  // 2^24 each: the sum fits
    const std::uint32_t largest = warp_max(std::bit_cast<std::uint32_t>(x));
    if (thread_index() % 32 != 0) continue;
    if (share != 0) atomic_add(args.state.denominators, work.head_at + h, std::int64_t{share});
    if (largest != 0) atomic_max(args.state.largest, work.head_at + h, largest);
  }
}

// The sums of a split lie behind its P. A sum of 256 times 65535 times 127 is below 2^31.
constexpr std::uint32_t kSplitSums = kHeadsMost * kSplit;
static_assert(kSplitSums + kHeadsMost * kHeadDimMax <= kWholeWords);

HEARTH_DEVICE void place_split(const Args& args, const Work& work, Words& shared) {
  const std::uint32_t eights = work.pages * (kPageTokens / 8);
  for (std::uint32_t i = thread_index(); i < work.heads * args.head_dim; i += kWideThreads) {
    shared.put(kSplitSums + i, 0U);
  }
  HEARTH_ROLL
  for (std::uint32_t i = thread_index(); i < work.heads * eights; i += kWideThreads) {
    const std::uint32_t h = i / eights;
    const std::uint32_t at = i % eights * 8;
    const Global<Words4> from = args.scores.at(scores_at(args, work, h) + at).as<Words4>();
    const Words4 x[2] = {from.get(0), from.get(1)};
    const auto largest = std::bit_cast<float>(args.state.largest.get(work.head_at + h));
    put_four(shared, h * kSplit + at, weights_of(x, to_integer_of(largest)));
  }
}

template <std::uint32_t kHeads>
HEARTH_DEVICE void sum_heads(const Args& args, const Work& work, const Lane& lane,
                             std::uint32_t first, const ValueWords<1>& words, Words& shared) {
  std::int32_t low[kHeads];
  std::int32_t high[kHeads];
  add_values(args, work, lane, first, words, shared, low, high);
  if (lane.part >= lane.pages) return;
  HEARTH_UNROLL
  for (std::uint32_t h = 0; h < kHeads; ++h) {
    const std::int32_t sum = high[h] * 256 + low[h];
    atomic_add(shared, kSplitSums + (first + h) * args.head_dim + lane.d,
               static_cast<std::uint32_t>(sum));
  }
}

// Four heads at a time, as score_split.
HEARTH_DEVICE void sum_split(const Args& args, const Work& work, const Lane& lane,
                             ValueWords<1> words, Words& shared) {
  for (std::uint32_t first = 0; first < work.heads; first += 4) {
    if (first != 0) words = value_words<1>(args, work, lane, lane.part);
    switch (work.heads - first) {
      case 1: sum_heads<1>(args, work, lane, first, words, shared); break;
      case 2: sum_heads<2>(args, work, lane, first, words, shared); break;
      case 3: sum_heads<3>(args, work, lane, first, words, shared); break;
      default: sum_heads<4>(args, work, lane, first, words, shared); break;
    }
  }
}

// The block of a token and chunk that ends last turns sums into the output, and leaves the state
// zero.
HEARTH_DEVICE void finish(const Args& args, const Work& work, ValuesShared& shared) {
  fence_device();
  sync_threads();
  if (thread_index() == 0) {
    const std::uint32_t before = atomic_add(args.state.tickets, work.head_at, 1U);
    shared.last.put(0, before + 1 == work.blocks ? 1U : 0U);
  }
  sync_threads();
  if (shared.last.get(0) == 0) return;
  fence_device();
  const bool refused = args.state.refused.get(work.head_at) != 0;
  for (std::uint32_t i = thread_index(); i < work.heads * args.head_dim; i += kWideThreads) {
    const std::size_t head = work.head_at + i / args.head_dim;
    const std::size_t at = std::size_t{work.head_at} * args.head_dim + i;
    const std::int64_t sum = atomic_exchange(args.state.sums, at, std::int64_t{0});
    args.out.put(at, output_of(sum, std::bit_cast<float>(args.state.largest.get(head)),
                               args.state.denominators.get(head), refused));
  }
  if (thread_index() < work.heads) args.state.maxima.put(work.head_at + thread_index(), 0U);
  if (thread_index() == 0) atomic_exchange(args.state.tickets, work.head_at, 0U);
}

HEARTH_KERNEL(kWideThreads, 2) attention_values(Args args) {
  wait_for_previous_kernel();
  const Work work = work_of(args, kSplitPages);
  if (block_index_y() >= work.blocks) return;
  ValuesShared& shared = shared_memory<ValuesShared>();
  const Lane lane = lane_of(args, work);
  const ValueWords<1> words = value_words<1>(args, work, lane, lane.part);
  if (work.pages != 0 && args.state.refused.get(work.head_at) == 0) {
    place_split(args, work, shared.words);
    sync_threads();
    sum_split(args, work, lane, words, shared.words);
    sync_threads();
    for (std::uint32_t i = thread_index(); i < work.heads * args.head_dim; i += kWideThreads) {
      const std::int64_t sum = static_cast<std::int32_t>(shared.words.get(kSplitSums + i));
      if (sum != 0) atomic_add(args.state.sums, std::size_t{work.head_at} * args.head_dim + i, sum);
    }
  }
  finish(args, work, shared);
}

State state_in(const AttentionSpace& space, std::size_t heads, std::uint32_t head_dim,
               std::size_t positions_most) {
  auto* sums = reinterpret_cast<std::int64_t*>(space.state);
  auto* words = reinterpret_cast<std::uint32_t*>(sums + heads * head_dim);
  auto* wide = reinterpret_cast<std::int64_t*>(space.scores + heads * positions_most);
  auto* narrow = reinterpret_cast<std::uint32_t*>(wide + heads);
  return {Global(sums), Global(words),  Global(words + heads),
          Global(wide), Global(narrow), Global(narrow + heads)};
}

// Whether one block takes each token and chunk of its heads.
bool takes_whole(std::uint32_t splits, std::uint32_t heads, std::uint32_t blocks) {
  if (splits > whole_positions(heads) / kSplit) return false;
  return splits <= kWholeSplits || blocks >= kWholeBlocks;
}

}  // namespace

std::size_t attention_scores(std::uint32_t tokens, std::uint32_t heads, std::uint32_t pages_most) {
  const std::uint32_t splits = (pages_most + kSplitPages - 1) / kSplitPages;
  return std::size_t{tokens} * heads * (splits * kSplit + 4);  // and State's 16 bytes
}

std::size_t attention_state_bytes(std::uint32_t tokens, std::uint32_t heads,
                                  std::uint32_t head_dim) {
  return std::size_t{tokens} * heads * (std::size_t{head_dim} * 8 + 2 * 4);
}

Status attention(const AttentionRows& rows, const AttentionSpace& space, std::uint32_t* failed,
                 Stream stream) {
  const std::uint32_t head_dim = rows.layout.head_dim;
  const std::uint32_t kv_heads = rows.layout.kv_heads;
  TRY_VOID(check_heads(rows));
  if (rows.tokens == 0) return ok_status();
  REQUIRE(rows.pages_most != 0, "attention over no pages");
  const std::uint32_t splits = (rows.pages_most + kSplitPages - 1) / kSplitPages;
  const std::uint32_t group = rows.heads / kv_heads;
  const std::uint32_t chunks = (group + kHeadsMost - 1) / kHeadsMost;
  const std::uint32_t blocks = rows.tokens * kv_heads * chunks;
  const std::size_t heads = std::size_t{rows.tokens} * rows.heads;
  const Args args{rows.heads,
                  kv_heads,
                  head_dim,
                  chunks,
                  splits * kSplitPages,
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
                  state_in(space, heads, head_dim, std::size_t{splits} * kSplit)};
  if constexpr (kHasWhole) {
    if (takes_whole(splits, group, blocks)) {
      return launched("attention_whole", launch_early(attention_whole, {blocks, 1}, kWideThreads,
                                                      sizeof(WholeShared), stream, args));
    }
  }
  const Grid grid{blocks, splits};
  TRY_VOID(launched("attention_scores_of", launch_early(attention_scores_of, grid, kThreads,
                                                        sizeof(QueryShared), stream, args)));
  TRY_VOID(launched("attention_weights",
                    launch_early(attention_weights, grid, kThreads, 0, stream, args)));
  return launched("attention_values", launch_early(attention_values, grid, kWideThreads,
                                                   sizeof(ValuesShared), stream, args));
}

}  // namespace hearth::kernels::cuda
