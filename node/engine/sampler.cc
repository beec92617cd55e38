#include "node/engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/sampling.h"

namespace hearth::node {
namespace {

using kernels::kTopPOff;

constexpr std::int64_t kLogitMax = 1LL << 30;  // 2^14 in 2^-16 units
constexpr std::int32_t kExcluded = std::numeric_limits<std::int32_t>::min();
constexpr double kLog2E48 = 406082553034801.0;  // log2(e) in 2^-48 units
constexpr int kBucketBits = 12;
constexpr std::uint32_t kBuckets = 1U << kBucketBits;
constexpr std::size_t kFew = 256;      // allowed tokens that are looked at alone
constexpr std::uint32_t kChunk = 256;  // tokens summed at once by a draw over everything
static_assert(2 * kLogitMax < (1LL << 32), "a distance fits the upper half of a key");
static_assert(kExcluded < -kLogitMax, "an excluded token is below every clamped logit");

// value * 2^bits, rounded to nearest even, held in [low, high]; NaN becomes low.
std::int64_t to_fixed(float value, int bits, std::int64_t low, std::int64_t high) {
  const double scaled =
      std::nearbyint(static_cast<double>(value) * static_cast<double>(1LL << bits));
  if (!(scaled > static_cast<double>(low))) return low;
  if (scaled >= static_cast<double>(high)) return high;
  return static_cast<std::int64_t>(scaled);
}

std::int64_t hundred_units(float value) { return to_fixed(value, 16, -100LL << 16, 100LL << 16); }

std::int32_t clamp_logit(std::int64_t value) {
  return static_cast<std::int32_t>(std::clamp(value, -kLogitMax, kLogitMax));
}

// A token whose distance is `limit` or more weighs nothing: factor * distance >= 41 * 2^48.
std::uint64_t distance_limit(std::uint64_t factor) { return ((41ULL << 48) + factor - 1) / factor; }

std::uint64_t weight_of(std::uint64_t distance, std::uint64_t factor) {
  return sampler_weight((distance * factor) >> 28);
}

std::uint64_t scale_random(std::uint64_t random, std::uint64_t total) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random) * total) >> 64);
}

}  // namespace

SamplerParams::SamplerParams(const SamplingParams& params)
    : top_k(params.top_k),
      seed(params.seed),
      top_p(static_cast<std::uint64_t>(to_fixed(params.top_p, 32, 0, 1LL << 32))),
      min_p(static_cast<std::uint64_t>(to_fixed(params.min_p, 40, 0, 1LL << 40))),
      repetition(to_fixed(params.repetition_penalty, 16, 1, 100LL << 16)),
      presence(hundred_units(params.presence_penalty)),
      frequency(hundred_units(params.frequency_penalty)),
      logprobs(params.logprobs),
      top_logprobs(params.top_logprobs) {
  greedy = !(params.temperature > 0.0F);
  const auto temperature =
      static_cast<std::uint64_t>(to_fixed(params.temperature, 16, 1, 100LL << 16));
  exponent_factor = static_cast<std::uint64_t>(kLog2E48) / temperature;
  penalties = repetition != 1 << 16 || presence != 0 || frequency != 0;
  for (const auto& [token, value] : params.logit_bias) {
    if (value == -std::numeric_limits<float>::infinity()) {
      excluded.push_back(token);
    } else {
      bias.emplace_back(token, hundred_units(value));
    }
  }
}

// The end of the kept prefix in the order (distance ascending, id ascending): keys above `last` are
// out.
struct Sampler::Cut {
  std::uint64_t last = 0;
  std::uint64_t total = 0;  // weight of what is in
};

Sampler::Sampler(std::uint32_t vocabulary)
    : logits_(vocabulary), counts_(kBuckets), sums_(std::max(kBuckets, vocabulary / kChunk + 1)) {
  INVARIANT(vocabulary != 0, "a vocabulary has tokens");
  keys_.reserve(vocabulary);
}

// False when a logit is not finite. The addition of 1.5 * 2^52 rounds to an integer, to nearest
// even, and leaves it in the low bits; compilers turn this loop into vector code.
bool Sampler::load(std::span<const float> logits) {
  constexpr double kRound = 6755399441055744.0;
  constexpr float kMax = 16384.0F;
  std::uint32_t infinite = 0;
  const std::size_t n = logits.size();
  for (std::size_t i = 0; i < n; ++i) {
    float x = logits[i];
    infinite |= (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) == 0x7F800000U ? 1U : 0U;
    x = x < kMax ? x : kMax;
    x = x > -kMax ? x : -kMax;
    logits_[i] = static_cast<std::int32_t>(
        std::bit_cast<std::int64_t>(static_cast<double>(x) * 65536.0 + kRound));
  }
  return infinite == 0;
}

void Sampler::find_best() {
  best_ = kExcluded;
  for (const std::int32_t logit : logits_) best_ = std::max(best_, logit);
  best_token_ =
      static_cast<TokenId>(std::find(logits_.begin(), logits_.end(), best_) - logits_.begin());
}

void TokenHistory::add(TokenId token, bool generated) {
  Seen& seen = counts_[token];
  if (generated) {
    ++seen.generated;
    generated_.push_back(token);
  } else {
    seen.in_prompt = true;
  }
}

void TokenHistory::keep_generated(std::size_t count) {
  for (; generated_.size() > count; generated_.pop_back()) {
    const auto found = counts_.find(generated_.back());
    INVARIANT(found != counts_.end() && found->second.generated > 0,
              "every generated token is counted");
    if (--found->second.generated == 0 && !found->second.in_prompt) counts_.erase(found);
  }
}

std::span<const TokenId> TokenHistory::generated_behind(std::size_t count) const {
  return std::span(generated_).subspan(std::min(count, generated_.size()));
}

void Sampler::penalise(const SamplerParams& params, const TokenHistory& history,
                       std::span<const TokenId> later) {
  history.each_before(later, [&](TokenId token, std::uint32_t generated) {
    std::int64_t logit = logits_[token];
    // Arithmetic shift: rounds down, as the division of a positive number does.
    logit = logit > 0 ? (logit << 16) / params.repetition : (logit * params.repetition) >> 16;
    logit = clamp_logit(logit);
    if (generated > 0) logit -= params.frequency * generated + params.presence;
    logits_[token] = clamp_logit(logit);
  });
}

void Sampler::adjust(const SamplerParams& params, const TokenHistory& history,
                     std::span<const TokenId> later) {
  const auto size = static_cast<TokenId>(logits_.size());
  for (const auto& [token, value] : params.bias) {
    if (token < 0 || token >= size) continue;
    logits_[token] = clamp_logit(logits_[token] + value);
  }
  if (params.penalties) penalise(params, history, later);
  for (const TokenId token : params.excluded) {
    if (token >= 0 && token < size) logits_[token] = kExcluded;
  }
}

void Sampler::apply(std::span<const std::uint64_t> mask) {
  INVARIANT(mask.size() == (logits_.size() + 63) / 64, "a mask has one bit a token");
  for (std::size_t word = 0; word < mask.size(); ++word) {
    const std::uint64_t bits = mask[word];
    const std::size_t begin = 64 * word;
    const std::size_t count = std::min<std::size_t>(64, logits_.size() - begin);
    if (bits == 0) {
      std::fill_n(logits_.begin() + static_cast<std::ptrdiff_t>(begin), count, kExcluded);
      continue;
    }
    const std::uint64_t tokens = count == 64 ? ~0ULL : (1ULL << count) - 1;
    for (std::uint64_t out = ~bits & tokens; out != 0; out &= out - 1) {
      logits_[begin + static_cast<std::size_t>(std::countr_zero(out))] = kExcluded;
    }
  }
}

// Whether the mask allows so few tokens that the others need not be looked at; then few_ has them,
// in order.
bool Sampler::list_few(std::span<const std::uint64_t> mask) {
  INVARIANT(mask.size() == (logits_.size() + 63) / 64, "a mask has one bit a token");
  few_.clear();
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      if (few_.size() == kFew) return false;
      few_.push_back(static_cast<TokenId>(64 * word) + std::countr_zero(bits));
    }
  }
  return true;
}

// As find_best() and draw_all() over the tokens of few_: all others weigh nothing. Without a token
// best_ is kExcluded.
TokenId Sampler::draw_few(const SamplerParams& params, std::uint64_t random) {
  const auto logit = [&](TokenId token) { return logits_[static_cast<std::size_t>(token)]; };
  best_ = kExcluded;
  for (const TokenId token : few_) {
    if (logit(token) <= best_) continue;
    best_ = logit(token);
    best_token_ = token;
  }
  if (params.greedy || best_ == kExcluded) return best_token_;
  const std::uint64_t factor = params.exponent_factor;
  const auto weight = [&](TokenId token) -> std::uint64_t {
    const auto distance = static_cast<std::uint64_t>(std::int64_t{best_} - logit(token));
    return distance < distance_limit(factor) ? weight_of(distance, factor) : 0;
  };
  std::uint64_t total = 0;
  for (const TokenId token : few_) total += weight(token);
  INVARIANT(total > 0, "the best token has weight");
  std::uint64_t left = scale_random(random, total);
  auto at = few_.begin();
  for (; left >= weight(*at); ++at) left -= weight(*at);
  return *at;
}

TokenId Sampler::draw_all(const SamplerParams& params, std::uint64_t random) {
  const std::uint64_t factor = params.exponent_factor;
  const std::uint64_t limit = distance_limit(factor);
  const auto weight = [&](std::size_t i) -> std::uint64_t {
    const auto distance = static_cast<std::uint64_t>(std::int64_t{best_} - logits_[i]);
    return distance < limit ? weight_of(distance, factor) : 0;
  };
  std::uint64_t total = 0;
  for (std::size_t begin = 0; begin < logits_.size(); begin += kChunk) {
    const std::size_t end = std::min<std::size_t>(begin + kChunk, logits_.size());
    std::uint64_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += weight(i);
    sums_[begin / kChunk] = sum;
    total += sum;
  }
  INVARIANT(total > 0, "the best token has weight");
  std::uint64_t left = scale_random(random, total);
  std::size_t i = 0;
  for (; left >= sums_[i / kChunk]; i += kChunk) left -= sums_[i / kChunk];
  for (; left >= weight(i); ++i) left -= weight(i);
  return static_cast<TokenId>(i);
}

// Keys of the candidates in one bucket, in order.
void Sampler::gather(std::uint64_t bucket, int shift, const SamplerParams& params) {
  const std::uint64_t limit = distance_limit(params.exponent_factor);
  const std::uint64_t low = bucket << shift;
  const std::uint64_t high = std::min(limit, (bucket + 1) << shift);
  keys_.clear();
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    const auto distance = static_cast<std::uint64_t>(std::int64_t{best_} - logits_[i]);
    if (distance < low || distance >= high) continue;
    if (weight_of(distance, params.exponent_factor) < params.min_p) continue;
    keys_.push_back((distance << 32) + i);
  }
  std::sort(keys_.begin(), keys_.end());
}

// Every filter keeps a prefix of the order, so only the bucket that holds the cut is sorted.
Sampler::Cut Sampler::cut_of(const SamplerParams& params) {
  const std::uint64_t factor = params.exponent_factor;
  const std::uint64_t limit = distance_limit(factor);
  const int shift = std::max(0, static_cast<int>(std::bit_width(limit)) - kBucketBits);
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill_n(sums_.begin(), kBuckets, 0);
  for (const std::int32_t logit : logits_) {
    const auto distance = static_cast<std::uint64_t>(std::int64_t{best_} - logit);
    if (distance >= limit) continue;
    const std::uint64_t weight = weight_of(distance, factor);
    if (weight < params.min_p) continue;
    ++counts_[distance >> shift];
    sums_[distance >> shift] += weight;
  }
  const auto weight_at = [&](std::uint64_t key) { return weight_of(key >> 32, factor); };
  Cut cut{~0ULL, 0};
  std::uint64_t kept = 0;
  std::uint32_t bucket = 0;
  const std::uint64_t most = params.top_k == 0 ? logits_.size() : params.top_k;
  for (; bucket < kBuckets && kept + counts_[bucket] <= most; ++bucket) {
    kept += counts_[bucket];
    cut.total += sums_[bucket];
  }
  if (bucket < kBuckets && kept < most) {
    gather(bucket, shift, params);
    INVARIANT(keys_.size() >= most - kept, "a bucket holds as many keys as were counted");
    for (std::uint64_t i = 0; i < most - kept; ++i) cut.total += weight_at(keys_[i]);
    cut.last = keys_[most - kept - 1];
  } else if (bucket < kBuckets) {
    cut.last = (static_cast<std::uint64_t>(bucket) << shift << 32) - 1;
  }
  if (params.top_p >= kTopPOff) return cut;

  const auto scaled = static_cast<unsigned __int128>(cut.total) * params.top_p;
  constexpr std::uint64_t kUp = kTopPOff - 1;
  const auto need = std::max<std::uint64_t>(1, static_cast<std::uint64_t>((scaled + kUp) >> 32));
  std::uint64_t sum = 0;
  for (bucket = 0; sum + sums_[bucket] < need; ++bucket) sum += sums_[bucket];
  gather(bucket, shift, params);
  for (const std::uint64_t key : keys_) {
    sum += weight_at(key);
    if (sum >= need) return {key, sum};
  }
  INVARIANT(false, "the total of the weights covers every share of it");
}

TokenId Sampler::draw_filtered(const SamplerParams& params, std::uint64_t random) {
  const Cut cut = cut_of(params);
  const std::uint64_t limit = distance_limit(params.exponent_factor);
  std::uint64_t left = scale_random(random, cut.total);
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    const auto distance = static_cast<std::uint64_t>(std::int64_t{best_} - logits_[i]);
    if (distance >= limit || (distance << 32) + i > cut.last) continue;
    const std::uint64_t weight = weight_of(distance, params.exponent_factor);
    if (weight < params.min_p) continue;
    if (left < weight) return static_cast<TokenId>(i);
    left -= weight;
  }
  INVARIANT(false, "the draw lies below the total");
}

// Logarithm of the softmax's denominator, with the largest logit taken out.
double Sampler::log_total() const {
  constexpr auto kFactor = static_cast<std::uint64_t>(kLog2E48) >> 16;  // temperature 1
  const std::uint64_t limit = distance_limit(kFactor);
  std::uint64_t total = 0;
  for (const std::int32_t logit : logits_) {
    const auto distance = static_cast<std::uint64_t>(std::int64_t{best_} - logit);
    if (distance < limit) total += weight_of(distance, kFactor);
  }
  return sampler_log(total);
}

// The most likely tokens of the unmodified logits.
void Sampler::report(std::uint32_t top, double log_sum, Draw& draw) {
  const std::size_t wanted = std::min<std::size_t>(top, logits_.size());
  if (wanted == 0) return;
  keys_.clear();
  std::int64_t worst = -1;  // distance of the last one kept
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    const std::int64_t distance = std::int64_t{best_} - logits_[i];
    if (keys_.size() == wanted && distance >= worst) continue;
    const std::uint64_t key = (static_cast<std::uint64_t>(distance) << 32) + i;
    if (keys_.size() == wanted) keys_.pop_back();
    keys_.insert(std::upper_bound(keys_.begin(), keys_.end(), key), key);
    worst = static_cast<std::int64_t>(keys_.back() >> 32);
  }
  for (const std::uint64_t key : keys_) {
    const double below = static_cast<double>(key >> 32) * 0x1p-16;
    draw.top.push_back(
        {static_cast<TokenId>(key & 0xFFFFFFFF), static_cast<float>((0.0 - below) - log_sum)});
  }
}

Result<Draw> Sampler::sample(std::span<const float> logits, const SamplerParams& params,
                             const TokenHistory& history, Position position,
                             std::span<const TokenId> later, std::span<const std::uint64_t> mask) {
  INVARIANT(logits.size() == logits_.size(), "a sampler serves one vocabulary");
  if (!load(logits)) return Error{ErrorCode::kNumeric, "a logit is not finite"};
  Draw draw;
  double largest = 0.0;
  double log_sum = 0.0;
  if (params.logprobs) {
    find_best();
    largest = static_cast<double>(best_);
    log_sum = log_total();
    report(params.top_logprobs, log_sum, draw);
  }
  adjust(params, history, later);
  const std::uint64_t random = kernels::random_of(params.seed, position);
  const bool filters = params.top_k != 0 || params.top_p < kTopPOff || params.min_p != 0;
  if (!mask.empty() && (params.greedy || !filters) && list_few(mask)) {
    draw.token = draw_few(params, random);
  } else {
    if (!mask.empty()) apply(mask);
    find_best();
    draw.token = best_token_;
    if (!params.greedy && best_ != kExcluded) {
      draw.token = filters ? draw_filtered(params, random) : draw_all(params, random);
    }
  }
  if (best_ == kExcluded) {
    return Error{ErrorCode::kNumeric,
                 "the logit bias and the grammar exclude every token of the vocabulary"};
  }
  if (params.logprobs) {
    // The unmodified logit again: `adjust` may have moved the one that was kept.
    const double x = std::clamp(logits[static_cast<std::size_t>(draw.token)], -16384.0F, 16384.0F);
    draw.logprob = static_cast<float>((std::nearbyint(x * 65536.0) - largest) * 0x1p-16 - log_sum);
  }
  return draw;
}

Result<Draw> Sampler::score(std::span<const float> logits, TokenId token, std::uint32_t top) {
  INVARIANT(logits.size() == logits_.size(), "a sampler serves one vocabulary");
  INVARIANT(token >= 0 && static_cast<std::size_t>(token) < logits_.size(),
            "a checked prompt has tokens of the vocabulary");
  if (!load(logits)) return Error{ErrorCode::kNumeric, "a logit is not finite"};
  find_best();
  Draw draw;
  draw.token = token;
  const double log_sum = log_total();
  report(top, log_sum, draw);
  const double below =
      static_cast<double>(logits_[static_cast<std::size_t>(token)]) - static_cast<double>(best_);
  draw.logprob = static_cast<float>(below * 0x1p-16 - log_sum);
  return draw;
}

}  // namespace hearth::node
