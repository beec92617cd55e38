// One block a row. Each warp has a run of the vocabulary, and so a sum in the order of ids needs
// only each warp's total and one look at the run of the draw. Tokens are never sorted by distance:
// every filter keeps a prefix of it, whose end is found from histograms of counts or of weights,
// each finer than the one before. Tokens of one distance weigh the same, so that the end among them
// is a number of tokens. A pass reads four tokens a load, with four loads under way.
#include <string>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/sampler.h"
#include "kernels/sampling.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 1024;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kLoads = 4;  // of a thread under way
constexpr std::uint32_t kWarpStep = kLoads * 32 * 4;
constexpr unsigned kBucketBits = 11;
constexpr unsigned kBuckets = 1U << kBucketBits;
constexpr unsigned kOwnBuckets = kBuckets / kThreads;  // of a thread
constexpr std::uint32_t kTable = 1024;
constexpr std::int32_t kLogitMost = 1 << 30;
constexpr std::int32_t kExcluded = INT32_MIN;
// Excluded tokens are farther away; at a temperature of 100, a candidate is below 2^28.
constexpr std::uint32_t kDistanceMost = (1U << 30) - 1;
constexpr std::uint32_t kVocabularyMost = 1U << 30;
constexpr std::uint32_t kNoId = 0xFFFFFFFFU;
static_assert(kWarps == 32, "a lane reads what a warp has written");

struct Args {
  std::uint32_t vocabulary;
  Global<const float> logits;
  Global<const SampleRow> params;
  Global<const SampleBias> bias;
  Global<const std::uint32_t> excluded;
  Global<const SampleSeen> seen;
  Global<std::int32_t> scratch;
  Global<std::uint32_t> tokens;
  Global<SampleOutcome> outcomes;
};

// What one thread shares with all.
struct Found {
  SharedArray<std::uint64_t, 1> amount;
  SharedArray<std::uint32_t, 1> index;
};

struct SampleShared {
  SharedArray<SampleRow, 1> params;
  SharedArray<std::uint64_t, kWarps> totals;
  SharedArray<std::uint32_t, kWarps> infinite;
  SharedArray<std::uint32_t, kWarps> largest;
  SharedArray<std::uint32_t, kWarps> ids;
  SharedArray<std::uint32_t, kTable> high;       // exp2_polynomial of the first ten bits
  SharedArray<std::uint32_t, kTable> low;        // and of the next ten
  SharedArray<std::uint32_t, kBuckets> sums;     // counts, or weights modulo 2^32
  SharedArray<std::uint32_t, kBuckets> carries;  // and the weights' upper halves
  Found found;
};

// A row: its logits in fixed point and the run of ids that this thread's warp owns.
struct Row {
  bool aligned;  // to four tokens; a constant for the compiler
  std::uint32_t vocabulary;
  std::uint32_t run;
  Global<std::int32_t> logits;
  std::int32_t best;
  std::uint64_t factor;

  HEARTH_DEVICE std::uint32_t begin_of(std::uint32_t warp) const {
    return warp * run < vocabulary ? warp * run : vocabulary;
  }
};

// The end of a prefix of the order (distance, id): all tokens below `distance`, and those at it up
// to `id`.
struct Cut {
  std::uint32_t distance;
  std::uint32_t id;
};

HEARTH_DEVICE std::int32_t held(std::int64_t logit) {
  if (logit > kLogitMost) return kLogitMost;
  return logit < -kLogitMost ? -kLogitMost : static_cast<std::int32_t>(logit);
}

HEARTH_DEVICE std::uint64_t wide_shuffle(std::uint64_t value, unsigned lane) {
  const std::uint32_t low = shuffle(static_cast<std::uint32_t>(value), lane);
  const std::uint32_t high = shuffle(static_cast<std::uint32_t>(value >> 32), lane);
  return std::uint64_t{high} << 32 | low;
}

// The sum over the lanes up to this one.
HEARTH_DEVICE std::uint64_t warp_scan(std::uint64_t mine) {
  const unsigned lane = thread_index() % 32;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const std::uint64_t other = wide_shuffle(mine, (lane - distance) & 31U);
    if (lane >= distance) mine += other;
  }
  return mine;
}

struct Scan {
  std::uint64_t before;  // the sum over the threads below
  std::uint64_t total;
};

HEARTH_DEVICE Scan block_scan(std::uint64_t mine, SampleShared& shared) {
  const unsigned lane = thread_index() % 32;
  const unsigned warp = thread_index() / 32;
  const std::uint64_t upto = warp_scan(mine);
  sync_threads();  // the last scan has been read
  if (lane == 31) shared.totals.put(warp, upto);
  sync_threads();
  const std::uint64_t of_warp = shared.totals.get(lane);
  const std::uint64_t warps = warp_scan(of_warp);
  return {wide_shuffle(warps - of_warp, warp) + upto - mine, wide_shuffle(warps, 31)};
}

// Four numbers from i on, a multiple of 4; `behind` where the row has ended. Rows of a vocabulary
// that is no multiple of 4 are not aligned.
template <bool kAligned>
HEARTH_DEVICE Words4 load_four(Global<const std::uint32_t> row, std::uint32_t i, std::uint32_t n,
                               std::uint32_t behind) {
  if constexpr (kAligned) {
    return i < n ? row.as<const Words4>().get(i / 4) : Words4{{behind, behind, behind, behind}};
  } else {
    Words4 out;
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) out.at[k] = i + k < n ? row.get(i + k) : behind;
    return out;
  }
}

template <bool kAligned, unsigned kAhead, typename Each>
HEARTH_DEVICE void each_four_of(Global<const std::uint32_t> from, const Row& row,
                                std::uint32_t behind, Each each) {
  const unsigned warp = thread_index() / 32;
  const std::uint32_t end = row.begin_of(warp + 1);
  const std::uint32_t first = row.begin_of(warp) + thread_index() % 32 * 4;
  for (std::uint32_t base = row.begin_of(warp), i = first; base < end; base += kAhead * 128) {
    Words4 words[kAhead];
    HEARTH_UNROLL
    for (unsigned a = 0; a < kAhead; ++a) {
      words[a] = load_four<kAligned>(from, i + a * 128, row.vocabulary, behind);
    }
    HEARTH_UNROLL
    for (unsigned a = 0; a < kAhead; ++a, i += 128) each(i, words[a]);
  }
}

// Calls each(i, four) for the fours of the warp's run; whole warps call it, behind the row's end
// too.
template <typename Each>
HEARTH_DEVICE void each_four(Global<const std::uint32_t> from, const Row& row, std::uint32_t behind,
                             Each each) {
  if (row.aligned) {
    each_four_of<true, kLoads>(from, row, behind, each);
  } else {  // a four is four loads
    each_four_of<false, 1>(from, row, behind, each);
  }
}

// Four tokens of ascending ids, of which some count.
struct Tokens {
  std::uint32_t id;
  std::uint32_t distances[4];
  bool in[4];
};

// within(id, distance) of each of the four logits from id i on. False where none counts.
template <typename Within>
HEARTH_DEVICE bool tokens_of(const Row& row, std::uint32_t i, const Words4& logits, Within within,
                             Tokens& out) {
  out.id = i;
  bool any = false;
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    out.distances[k] = static_cast<std::uint32_t>(row.best) - logits.at[k];
    out.in[k] = within(i + k, out.distances[k]);
    any = any || out.in[k];
  }
  return any;
}

// Calls each(tokens) for the fours of the warp's run of which some token counts. Behind the row's
// end are tokens as far as excluded ones.
template <typename Within, typename Each>
HEARTH_DEVICE void each_within(const Row& row, Within within, Each each) {
  each_four(row.logits.as<const std::uint32_t>(), row, static_cast<std::uint32_t>(kExcluded),
            [&](std::uint32_t i, const Words4& logits) {
              Tokens tokens;
              if (tokens_of(row, i, logits, within, tokens)) each(tokens);
            });
}

// The largest of some logits with their sign turned, so that they order unsigned, and the lowest id
// that has it.
struct Best {
  std::uint32_t turned = 0;
  std::uint32_t id = kNoId;

  HEARTH_DEVICE void add(std::uint32_t i, std::int32_t logit) {  // ids ascend
    const std::uint32_t other = static_cast<std::uint32_t>(logit) ^ 0x80000000U;
    if (other <= turned) return;
    turned = other;
    id = i;
  }
};

HEARTH_DEVICE Best best_of_lanes(const Best& mine) {
  const std::uint32_t most = warp_max(mine.turned);
  return {most, ~warp_max(mine.turned == most ? ~mine.id : 0U)};
}

// The best of all threads. A barrier.
HEARTH_DEVICE Best best_of_threads(const Best& mine, SampleShared& shared) {
  const unsigned lane = thread_index() % 32;
  const Best of_warp = best_of_lanes(mine);
  if (lane == 0) {
    shared.largest.put(thread_index() / 32, of_warp.turned);
    shared.ids.put(thread_index() / 32, of_warp.id);
  }
  sync_threads();
  return best_of_lanes({shared.largest.get(lane), shared.ids.get(lane)});
}

// Logits to fixed point, kept where `keeps`. False, in every thread, when one is not finite.
HEARTH_DEVICE bool load(const Args& args, const Row& row, bool keeps, Best& best,
                        SampleShared& shared) {
  const std::uint32_t n = row.vocabulary;
  const Global<const float> logits = args.logits.at(std::size_t{block_index_x()} * n);
  bool infinite = false;
  Best mine;
  each_four(logits.as<const std::uint32_t>(), row, 0, [&](std::uint32_t i, Words4 words) {
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      float x = std::bit_cast<float>(words.at[k]);
      infinite = infinite || !is_finite(x);
      x = x < 16384.0F ? x : 16384.0F;
      x = x > -16384.0F ? x : -16384.0F;
      const std::int32_t logit = round_even(x * 65536.0F);
      if (i + k < n) mine.add(i + k, logit);
      if (keeps && !row.aligned && i + k < n) row.logits.put(i + k, logit);
      words.at[k] = static_cast<std::uint32_t>(logit);
    }
    if (keeps && row.aligned && i < n) row.logits.as<Words4>().put(i / 4, words);
  });
  const bool warp_infinite = warp_any(infinite);
  if (thread_index() % 32 == 0) shared.infinite.put(thread_index() / 32, warp_infinite ? 1U : 0U);
  best = best_of_threads(mine, shared);
  return !warp_any(shared.infinite.get(thread_index() % 32) != 0);
}

// Steps 1 to 4 of the text. Biases are added in turn, for a token may have several.
HEARTH_DEVICE void adjust(const Args& args, const Row& row, const SampleRow& params) {
  if (thread_index() == 0) {
    for (std::uint32_t i = params.bias_begin; i < params.bias_end; ++i) {
      const SampleBias bias = args.bias.get(i);
      row.logits.put(bias.token, held(std::int64_t{row.logits.get(bias.token)} + bias.value));
    }
  }
  sync_threads();
  const std::uint32_t end = params.penalties ? params.seen_end : params.seen_begin;
  for (std::uint32_t i = params.seen_begin + thread_index(); i < end; i += kThreads) {
    const SampleSeen seen = args.seen.get(i);
    std::int64_t logit = row.logits.get(seen.token);
    logit = logit > 0 ? (logit << 16) / params.repetition : (logit * params.repetition) >> 16;
    logit = held(logit);
    if (seen.generated > 0) {
      logit -= std::int64_t{params.frequency} * seen.generated + params.presence;
    }
    row.logits.put(seen.token, held(logit));
  }
  sync_threads();
  for (std::uint32_t i = params.excluded_begin + thread_index(); i < params.excluded_end;
       i += kThreads) {
    atomic_exchange(row.logits, args.excluded.get(i), kExcluded);  // a token may stand there twice
  }
  sync_threads();
}

HEARTH_DEVICE bool has_adjustments(const SampleRow& params) {
  return params.bias_begin < params.bias_end || params.excluded_begin < params.excluded_end ||
         (params.penalties && params.seen_begin < params.seen_end);
}

HEARTH_DEVICE Best find_best(const Row& row, SampleShared& shared) {
  Best mine;
  each_four(row.logits.as<const std::uint32_t>(), row, static_cast<std::uint32_t>(kExcluded),
            [&](std::uint32_t i, const Words4& words) {
              HEARTH_UNROLL
              for (unsigned k = 0; k < 4; ++k) {
                mine.add(i + k, static_cast<std::int32_t>(words.at[k]));
              }
            });
  return best_of_threads(mine, shared);
}

// The distance of the farthest candidate that could be, by a warp: no weight is above that of a
// token nearer.
HEARTH_DEVICE std::uint32_t farthest(std::uint64_t factor, std::uint64_t min_p) {
  std::uint32_t near = 0;                 // a candidate
  std::uint32_t far = kDistanceMost + 1;  // none
  while (far - near > 1) {
    const std::uint32_t step = (far - near + 32) / 33;
    const std::uint32_t at = near + (thread_index() % 32 + 1) * step;
    const bool fits = at < far && multiply_high(at, factor) == 0;
    const std::uint64_t weight = fits ? weight_at(at * factor >> 28) : 0;
    const bool in = weight != 0 && weight >= min_p;
    const std::uint32_t last = warp_max(in ? at : near);
    far = last + step < far ? last + step : far;
    near = last;
  }
  return near;
}

// Fills the tables of the weights; gives the end of all candidates.
HEARTH_DEVICE Cut find_candidates(const Row& row, SampleShared& shared) {
  const std::uint64_t thread = thread_index();
  shared.high.put(thread, static_cast<std::uint32_t>(exp2_polynomial(thread << 20)));
  shared.low.put(thread, static_cast<std::uint32_t>(exp2_polynomial(thread << 10)));
  if (thread < 32) {
    const std::uint32_t last = farthest(row.factor, shared.params.get(0).min_p);
    if (thread == 0) shared.found.index.put(0, last);
  }
  sync_threads();
  return {shared.found.index.get(0), kNoId};
}

// The weight of a candidate, as weight_at() has it; for any other distance, some number.
HEARTH_DEVICE std::uint64_t weight_of(const Row& row, std::uint32_t distance,
                                      const SampleShared& shared) {
  const auto x = static_cast<std::uint32_t>(distance * row.factor >> 28);
  const std::uint64_t product =
      std::uint64_t{shared.high.get(x >> 10 & 1023)} * shared.low.get(x & 1023);
  return std::uint64_t{static_cast<std::uint32_t>(product >> 30)} << 10 >> (x >> 20 & 63);
}

HEARTH_DEVICE bool is_in(const Cut& cut, std::uint32_t distance, std::uint32_t id) {
  return (std::uint64_t{distance} << 32 | id) <= (std::uint64_t{cut.distance} << 32 | cut.id);
}

// The id at which the sum of amount(distance), over the tokens within(id, distance) and in the
// order of ids, exceeds target_of(sum over all), in every thread. The target is below that sum.
// `amount` may be asked of any distance.
template <typename Target, typename Within, typename Amount>
HEARTH_DEVICE std::uint32_t find_in_order(const Row& row, Target target_of, Within within,
                                          Amount amount, SampleShared& shared) {
  const unsigned warp = thread_index() / 32;
  std::uint64_t mine = 0;
  each_within(row, within, [&](const Tokens& tokens) {
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint64_t more = amount(tokens.distances[k]);
      mine += tokens.in[k] ? more : 0;
    }
  });
  const Scan all = block_scan(mine, shared);
  const std::uint64_t target = target_of(all.total);
  const std::uint64_t before = wide_shuffle(all.before, 0);
  const std::uint64_t upto = wide_shuffle(all.before + mine, 31);
  if (target >= before && target < upto && thread_index() % 32 == 0) {
    shared.found.index.put(0, warp);
    shared.found.amount.put(0, target - before);
  }
  sync_threads();
  const std::uint32_t owner = shared.found.index.get(0);
  std::uint64_t left = shared.found.amount.get(0);
  const std::uint32_t end = row.begin_of(owner + 1);
  for (std::uint32_t base = row.begin_of(owner);; base += kThreads * 4) {
    const std::uint32_t i = base + thread_index() * 4;
    const Words4 words = load_four<false>(row.logits.as<const std::uint32_t>(), i, end,
                                          static_cast<std::uint32_t>(kExcluded));
    Tokens tokens;
    tokens_of(row, i, words, within, tokens);
    std::uint64_t four[4];
    std::uint64_t sum = 0;
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      four[k] = tokens.in[k] ? amount(tokens.distances[k]) : 0;
      sum += four[k];
    }
    const Scan here = block_scan(sum, shared);
    if (left >= here.total) {
      left -= here.total;
      continue;
    }
    std::uint64_t upto_k = here.before;
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (left >= upto_k && left - upto_k < four[k]) shared.found.index.put(0, i + k);
      upto_k += four[k];
    }
    break;
  }
  sync_threads();
  return shared.found.index.get(0);
}

// Adds to a bucket. A sum of 64 bits is two of 32: an atomic addition of 64 bits in shared memory
// is a loop.
template <bool kWeights>
HEARTH_DEVICE void add_to_bucket(std::uint32_t bucket, std::uint64_t amount, SampleShared& shared) {
  const auto low = static_cast<std::uint32_t>(amount);
  if constexpr (!kWeights) {
    atomic_add(shared.sums, bucket, low);
  } else {
    const std::uint32_t before = atomic_add(shared.sums, bucket, low);
    const std::uint32_t high = static_cast<std::uint32_t>(amount >> 32) + (before + low < low);
    if (high != 0) atomic_add(shared.carries, bucket, high);
  }
}

// Numbers or weights of the tokens in `cut`, by distance in steps of 2^shift from `above` on.
template <bool kWeights>
HEARTH_DEVICE void fill_histogram(const Row& row, const Cut& cut, std::uint32_t above,
                                  unsigned shift, SampleShared& shared) {
  sync_threads();  // the last one has been read
  for (unsigned i = thread_index(); i < kBuckets; i += kThreads) {
    shared.sums.put(i, 0U);
    if (kWeights) shared.carries.put(i, 0U);
  }
  sync_threads();
  const auto within = [&](std::uint32_t id, std::uint32_t distance) {
    return distance >= above && (distance - above) >> shift < kBuckets && is_in(cut, distance, id);
  };
  each_within(row, within, [&](const Tokens& tokens) {
    std::uint64_t amounts[4];
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      amounts[k] = kWeights ? weight_of(row, tokens.distances[k], shared) : 1U;
    }
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (!tokens.in[k]) continue;
      add_to_bucket<kWeights>((tokens.distances[k] - above) >> shift, amounts[k], shared);
    }
  });
  sync_threads();
}

// The shortest prefix of `cut` of target_of(number or weight of all of it); all of it where that
// does not suffice.
template <bool kWeights, typename Target>
HEARTH_DEVICE Cut find_cut(const Row& row, const Cut& cut, Target target_of, SampleShared& shared) {
  unsigned shift = 0;
  while (cut.distance >> shift >= kBuckets) ++shift;
  std::uint32_t above = 0;
  std::uint64_t left = 0;  // of the target, beyond what is certainly in
  for (bool first = true;; first = false) {
    fill_histogram<kWeights>(row, cut, above, shift, shared);
    const unsigned own = thread_index() * kOwnBuckets;
    std::uint64_t sums[kOwnBuckets];
    std::uint64_t mine = 0;
    HEARTH_UNROLL
    for (unsigned k = 0; k < kOwnBuckets; ++k) {
      sums[k] = shared.sums.get(own + k);
      if (kWeights) sums[k] |= std::uint64_t{shared.carries.get(own + k)} << 32;
      mine += sums[k];
    }
    const Scan all = block_scan(mine, shared);
    if (first) left = target_of(all.total);
    if (left > all.total) return cut;  // in the first round alone
    std::uint64_t before = all.before;
    HEARTH_UNROLL
    for (unsigned k = 0; k < kOwnBuckets; ++k) {
      if (before < left && left - before <= sums[k]) {
        shared.found.index.put(0, own + k);
        shared.found.amount.put(0, left - before);
      }
      before += sums[k];
    }
    sync_threads();
    const std::uint32_t bucket = shared.found.index.get(0);
    left = shared.found.amount.get(0);
    above += bucket << shift;
    if (shift != 0) {
      shift = shift > kBucketBits ? shift - kBucketBits : 0;
      continue;
    }
    const std::uint64_t each = kWeights ? weight_of(row, above, shared) : 1;
    const std::uint64_t needed = (left + each - 1) / each;
    std::uint64_t there = shared.sums.get(bucket);
    if (kWeights) there |= std::uint64_t{shared.carries.get(bucket)} << 32;
    sync_threads();
    if (needed * each == there) return {above, above == cut.distance ? cut.id : kNoId};
    return {above, find_in_order(
                       row, [&](std::uint64_t) { return needed - 1; },
                       [&](std::uint32_t, std::uint32_t distance) { return distance == above; },
                       [&](std::uint32_t) { return std::uint64_t{1}; }, shared)};
  }
}

HEARTH_DEVICE std::uint32_t draw(const Row& row, SampleShared& shared) {
  Cut cut = find_candidates(row, shared);
  const std::uint32_t top_k = shared.params.get(0).top_k;
  const std::uint64_t top_p = shared.params.get(0).top_p;
  if (top_k != 0) {
    cut = find_cut<false>(
        row, cut, [&](std::uint64_t) { return std::uint64_t{top_k}; }, shared);
  }
  if (top_p < kTopPOff) {
    cut = find_cut<true>(
        row, cut, [&](std::uint64_t total) { return share_of(total, top_p); }, shared);
  }
  return find_in_order(
      row,
      [&](std::uint64_t total) {
        const SampleRow params = shared.params.get(0);
        return multiply_high(random_of(params.seed, params.position), total);
      },
      [&](std::uint32_t id, std::uint32_t distance) { return is_in(cut, distance, id); },
      [&](std::uint32_t distance) { return weight_of(row, distance, shared); }, shared);
}

HEARTH_DEVICE void answer(const Args& args, std::uint32_t token, SampleOutcome outcome) {
  if (thread_index() != 0) return;
  args.tokens.put(block_index_x(), token);
  args.outcomes.put(block_index_x(), outcome);
}

template <bool kAligned>
HEARTH_KERNEL(kThreads, 1)
sample_rows(Args args) {
  wait_for_previous_kernel();
  SampleShared& shared = shared_memory<SampleShared>();
  const std::uint32_t n = args.vocabulary;
  if (thread_index() == 0) shared.params.put(0, args.params.get(block_index_x()));
  sync_threads();
  const bool adjusts = has_adjustments(shared.params.get(0));
  const std::uint64_t factor = shared.params.get(0).exponent_factor;
  constexpr std::uint32_t kStep = kWarps * kWarpStep;
  Row row{kAligned,
          n,
          (n + kStep - 1) / kStep * kWarpStep,
          args.scratch.at(std::size_t{block_index_x()} * n),
          0,
          factor};
  Best best;
  if (!load(args, row, adjusts || factor != 0, best, shared)) {
    return answer(args, 0, SampleOutcome::kNotFinite);
  }
  if (adjusts) {
    adjust(args, row, shared.params.get(0));
    best = find_best(row, shared);
    if (best.turned == 0) return answer(args, 0, SampleOutcome::kAllExcluded);
  }
  row.best = static_cast<std::int32_t>(best.turned ^ 0x80000000U);
  answer(args, factor == 0 ? best.id : draw(row, shared), SampleOutcome::kToken);
}

}  // namespace

Status sample(const SampleBatch& batch, Stream stream) {
  REQUIRE(batch.vocabulary != 0 && batch.vocabulary <= kVocabularyMost,
          "a vocabulary of " + std::to_string(batch.vocabulary) + " tokens; it must have 1 to " +
              std::to_string(kVocabularyMost));
  if (batch.rows == 0) return ok_status();
  const Args args{batch.vocabulary,      Global(batch.logits),   Global(batch.params),
                  Global(batch.bias),    Global(batch.excluded), Global(batch.seen),
                  Global(batch.scratch), Global(batch.tokens),   Global(batch.outcomes)};
  return launched("sample_rows",
                  launch_early(batch.vocabulary % 4 == 0 ? sample_rows<true> : sample_rows<false>,
                               {batch.rows, 1}, kThreads, sizeof(SampleShared), stream, args));
}

}  // namespace hearth::kernels::cuda
