// One block a row. Each warp has a run of the vocabulary, so sums in the order of ids need only
// each warp's total and one walk through the run of the draw. Tokens are never sorted by distance:
// every filter keeps a prefix of it, whose end is found byte by byte of the distance, from
// histograms of counts and weights. Tokens of one distance weigh the same, so that the end among
// them is a number of tokens.
#include <string>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/sampler.h"
#include "kernels/sampling.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kBuckets = 256;
constexpr std::int32_t kLogitMost = 1 << 30;
constexpr std::int32_t kExcluded = INT32_MIN;
constexpr std::uint32_t kVocabularyMost = 1U << 30;

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

struct SampleShared {
  SharedArray<std::uint32_t, kBuckets> counts;
  SharedArray<std::uint64_t, kBuckets> sums;
  SharedArray<std::uint32_t, kWarps> words;
  SharedArray<std::uint32_t, kWarps> ids;
  SharedArray<std::uint64_t, kWarps> totals;
  SharedArray<std::uint32_t, 1> found;  // values that one thread shares with all
};

// A row: its logits in fixed point, its parameters, the run of ids that this thread's warp owns.
struct Row {
  SampleRow params;
  Global<std::int32_t> logits;
  std::uint32_t begin;
  std::uint32_t end;
  std::int32_t best;
};

// The end of a prefix of the order (distance, id): all tokens below `distance`, and those at it up
// to `id`.
struct Cut {
  std::uint32_t distance = 0xFFFFFFFFU;
  std::uint32_t id = 0xFFFFFFFFU;
  std::uint64_t total = 0;  // weight of what is in
};

HEARTH_DEVICE std::int32_t held(std::int64_t logit) {
  if (logit > kLogitMost) return kLogitMost;
  return logit < -kLogitMost ? -kLogitMost : static_cast<std::int32_t>(logit);
}

template <typename T>
HEARTH_DEVICE std::uint64_t wide_xor(T value, unsigned mask) {
  const auto bits = static_cast<std::uint64_t>(value);
  const std::uint32_t low = shuffle_xor(static_cast<std::uint32_t>(bits), mask);
  const std::uint32_t high = shuffle_xor(static_cast<std::uint32_t>(bits >> 32), mask);
  return std::uint64_t{high} << 32 | low;
}

HEARTH_DEVICE std::uint64_t warp_sum(std::uint64_t mine) {
  for (unsigned mask = 16; mask > 0; mask /= 2) mine += wide_xor(mine, mask);
  return mine;
}

// Logits to fixed point. False, in every thread, when one is not finite.
HEARTH_DEVICE bool load(const Args& args, const Row& row, SampleShared& shared) {
  const Global<const float> logits = args.logits.at(std::size_t{block_index_x()} * args.vocabulary);
  bool infinite = false;
  for (std::uint32_t i = row.begin + thread_index() % 32; i < row.end; i += 32) {
    float x = logits.get(i);
    infinite = infinite || !is_finite(x);
    x = x < 16384.0F ? x : 16384.0F;
    x = x > -16384.0F ? x : -16384.0F;
    row.logits.put(i, round_even(x * 65536.0F));
  }
  const bool warp_infinite = warp_any(infinite);
  if (thread_index() % 32 == 0) shared.words.put(thread_index() / 32, warp_infinite ? 1U : 0U);
  sync_threads();
  bool any = false;
  for (unsigned w = 0; w < kWarps; ++w) any = shared.words.get(w) != 0 || any;
  return !any;
}

// Steps 1 to 4 of the text. Biases are added in turn, for a token may have several.
HEARTH_DEVICE void adjust(const Args& args, const Row& row) {
  const SampleRow& params = row.params;
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

// The largest logit and the lowest id that has it, in every thread.
HEARTH_DEVICE std::uint32_t find_best(Row& row, SampleShared& shared) {
  std::uint32_t largest = 0;  // of the logits with their sign turned, so that they order unsigned
  std::uint32_t id = 0xFFFFFFFFU;
  for (std::uint32_t i = row.begin + thread_index() % 32; i < row.end; i += 32) {
    const std::uint32_t turned = static_cast<std::uint32_t>(row.logits.get(i)) ^ 0x80000000U;
    if (id != 0xFFFFFFFFU && turned <= largest) continue;
    largest = turned;
    id = i;
  }
  const std::uint32_t most = warp_max(largest);
  const std::uint32_t lowest = ~warp_max(largest == most ? ~id : 0U);
  if (thread_index() % 32 == 0) {
    shared.words.put(thread_index() / 32, most);
    shared.ids.put(thread_index() / 32, lowest);
  }
  sync_threads();
  std::uint32_t best = 0;
  std::uint32_t best_id = 0xFFFFFFFFU;
  for (unsigned w = 0; w < kWarps; ++w) {  // ids ascend with the warps
    if (shared.ids.get(w) == 0xFFFFFFFFU) continue;
    if (best_id != 0xFFFFFFFFU && shared.words.get(w) <= best) continue;
    best = shared.words.get(w);
    best_id = shared.ids.get(w);
  }
  row.best = static_cast<std::int32_t>(best ^ 0x80000000U);
  return best_id;
}

HEARTH_DEVICE std::uint32_t distance_of(const Row& row, std::uint32_t i) {
  return static_cast<std::uint32_t>(std::int64_t{row.best} - row.logits.get(i));
}

// The weight of a token at that distance; 0 if it is not a candidate.
HEARTH_DEVICE std::uint64_t weight_of(const Row& row, std::uint32_t distance) {
  const std::uint64_t factor = row.params.exponent_factor;
  if (distance >= (kWeightUnits + factor - 1) / factor) return 0;
  const std::uint64_t weight = weight_at(distance * factor >> 28);
  return weight < row.params.min_p ? 0 : weight;
}

HEARTH_DEVICE bool is_in(const Cut& cut, std::uint32_t distance, std::uint32_t id) {
  return distance < cut.distance || (distance == cut.distance && id <= cut.id);
}

// Walks the ids in order until the sum of `amount(i)` exceeds `target`: the id where it does, in
// every thread. `amount` is 0 for what does not count. The sum over all must exceed the target.
template <typename Amount>
HEARTH_DEVICE std::uint32_t find_in_order(const Row& row, std::uint64_t target, Amount amount,
                                          SampleShared& shared) {
  const unsigned lane = thread_index() % 32;
  const unsigned warp = thread_index() / 32;
  std::uint64_t mine = 0;
  for (std::uint32_t i = row.begin + lane; i < row.end; i += 32) mine += amount(i);
  mine = warp_sum(mine);
  if (lane == 0) shared.totals.put(warp, mine);
  sync_threads();
  std::uint64_t left = target;
  unsigned owner = 0;
  for (; owner + 1 < kWarps && left >= shared.totals.get(owner); ++owner) {
    left -= shared.totals.get(owner);
  }
  if (warp == owner) {
    for (std::uint32_t first = row.begin; first < row.end; first += 32) {
      const std::uint32_t i = first + lane;
      const std::uint64_t here = i < row.end ? amount(i) : 0;
      const std::uint64_t all = warp_sum(here);
      if (left >= all) {
        left -= all;
        continue;
      }
      std::uint64_t before = 0;  // sums of the lower lanes
      for (unsigned k = 0; k < 32; ++k) {
        const std::uint32_t low = shuffle(static_cast<std::uint32_t>(here), k);
        const std::uint32_t high = shuffle(static_cast<std::uint32_t>(here >> 32), k);
        if (k < lane) before += std::uint64_t{high} << 32 | low;
      }
      if (left >= before && left - before < here) shared.found.put(0, i);
      break;
    }
  }
  sync_threads();
  return shared.found.get(0);
}

// Counts and weights of the candidates whose distance agrees with `above` from bit shift + 8 on, by
// the eight bits below.
HEARTH_DEVICE void fill_histogram(const Row& row, std::uint32_t above, unsigned shift,
                                  SampleShared& shared) {
  for (unsigned i = thread_index(); i < kBuckets; i += kThreads) {
    shared.counts.put(i, 0U);
    shared.sums.put(i, std::uint64_t{0});
  }
  sync_threads();
  for (std::uint32_t i = row.begin + thread_index() % 32; i < row.end; i += 32) {
    const std::uint32_t distance = distance_of(row, i);
    if (shift < 24 && distance >> (shift + 8) != above) continue;
    const std::uint64_t weight = weight_of(row, distance);
    if (weight == 0) continue;
    atomic_add(shared.counts, distance >> shift & 255U, 1U);
    atomic_add(shared.sums, distance >> shift & 255U, weight);
  }
  sync_threads();
}

// The shortest prefix of the candidates of which there are `most_count`, or that weighs at least
// `least_weight`, whichever is asked for (the other is 0). All of them where they do not suffice.
HEARTH_DEVICE Cut find_cut(const Row& row, std::uint64_t most_count, std::uint64_t least_weight,
                           SampleShared& shared) {
  Cut cut;
  std::uint32_t above = 0;
  std::uint64_t count = 0;  // of what is certainly in
  std::uint64_t weight = 0;
  for (unsigned shift = 24;; shift -= 8) {
    fill_histogram(row, above, shift, shared);
    unsigned bucket = 0;
    for (; bucket < kBuckets; ++bucket) {
      const std::uint32_t more = shared.counts.get(bucket);
      const std::uint64_t heavier = shared.sums.get(bucket);
      if (most_count != 0 ? count + more >= most_count : weight + heavier >= least_weight) break;
      count += more;
      weight += heavier;
    }
    if (bucket == kBuckets) {  // in the first round alone: there are not so many
      cut.total = weight;
      sync_threads();
      return cut;
    }
    above = above << 8 | bucket;
    sync_threads();
    if (shift == 0) break;
  }
  const std::uint64_t each = weight_of(row, above);
  const std::uint64_t needed =
      most_count != 0 ? most_count - count : (least_weight - weight + each - 1) / each;
  cut.distance = above;
  cut.total = weight + needed * each;
  cut.id = find_in_order(
      row, needed - 1,
      [&](std::uint32_t i) { return std::uint64_t{distance_of(row, i) == above ? 1U : 0U}; },
      shared);
  return cut;
}

HEARTH_DEVICE std::uint32_t draw(const Row& row, SampleShared& shared) {
  const SampleRow& params = row.params;
  Cut cut = find_cut(row, params.top_k != 0 ? params.top_k : kVocabularyMost + 1, 0, shared);
  if (params.top_p < kTopPOff) {
    cut = find_cut(row, 0, share_of(cut.total, params.top_p), shared);
  }
  const std::uint64_t random = random_of(params.seed, params.position);
  return find_in_order(
      row, multiply_high(random, cut.total),
      [&](std::uint32_t i) {
        const std::uint32_t distance = distance_of(row, i);
        return is_in(cut, distance, i) ? weight_of(row, distance) : std::uint64_t{0};
      },
      shared);
}

HEARTH_DEVICE void answer(const Args& args, std::uint32_t token, SampleOutcome outcome) {
  if (thread_index() != 0) return;
  args.tokens.put(block_index_x(), token);
  args.outcomes.put(block_index_x(), outcome);
}

HEARTH_KERNEL(kThreads, 1) sample_rows(Args args) {
  SampleShared& shared = shared_memory<SampleShared>();
  const unsigned warp = thread_index() / 32;
  const std::uint32_t run = (args.vocabulary + kThreads - 1) / kThreads * 32;
  const std::uint32_t begin = warp * run < args.vocabulary ? warp * run : args.vocabulary;
  const std::uint32_t end = begin + run < args.vocabulary ? begin + run : args.vocabulary;
  Row row{args.params.get(block_index_x()),
          args.scratch.at(std::size_t{block_index_x()} * args.vocabulary), begin, end, 0};
  if (!load(args, row, shared)) return answer(args, 0, SampleOutcome::kNotFinite);
  adjust(args, row);
  const std::uint32_t best = find_best(row, shared);
  if (row.best == kExcluded) return answer(args, 0, SampleOutcome::kAllExcluded);
  const std::uint32_t token = row.params.exponent_factor == 0 ? best : draw(row, shared);
  answer(args, token, SampleOutcome::kToken);
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
  return launched("sample_rows", launch(sample_rows, {batch.rows, 1}, kThreads,
                                        sizeof(SampleShared), stream, args));
}

}  // namespace hearth::kernels::cuda
