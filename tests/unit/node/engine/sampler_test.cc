#include "node/engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/random.h"
#include "kernels/sampling.h"

namespace hearth::node {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::uint32_t n, std::uint64_t seed, float spread = 6.0F) {
  SeededRandom random(seed);
  std::vector<float> logits(n);
  for (float& x : logits) {
    x = (static_cast<float>(random.next() >> 40) * 0x1p-24F - 0.5F) * 2.0F * spread;
  }
  return logits;
}

TokenId draw(const std::vector<float>& logits, const SamplingParams& params, Position position,
             const TokenHistory& history = {}) {
  Sampler sampler(static_cast<std::uint32_t>(logits.size()));
  auto result = sampler.sample(logits, SamplerParams(params), history, position);
  EXPECT_TRUE(result.ok());
  return result.ok() ? result->token : -1;
}

// The tokens that ever come out over many positions.
std::set<TokenId> support(const std::vector<float>& logits, const SamplingParams& params,
                          const TokenHistory& history, int draws) {
  Sampler sampler(static_cast<std::uint32_t>(logits.size()));
  const SamplerParams fixed(params);
  std::set<TokenId> seen;
  for (int i = 0; i < draws; ++i) {
    seen.insert(sampler.sample(logits, fixed, history, static_cast<Position>(i))->token);
  }
  return seen;
}

// Slow, in double, and written another way round: probabilities after all filters.
std::vector<double> reference(std::vector<float> logits, const SamplingParams& params,
                              const TokenHistory& history) {
  const std::size_t n = logits.size();
  std::vector<double> x(logits.begin(), logits.end());
  for (const auto& [token, bias] : params.logit_bias) x[token] += bias;
  for (const auto& [token, seen] : history.counts()) {
    x[token] =
        x[token] > 0 ? x[token] / params.repetition_penalty : x[token] * params.repetition_penalty;
    x[token] -= params.frequency_penalty * static_cast<float>(seen.generated);
    if (seen.generated > 0) x[token] -= params.presence_penalty;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return x[a] > x[b]; });
  std::vector<double> p(n, 0.0);
  for (const std::size_t i : order) p[i] = std::exp((x[i] - x[order[0]]) / params.temperature);
  for (std::size_t rank = 0; rank < n; ++rank) {
    if (p[order[rank]] < params.min_p) p[order[rank]] = 0.0;
    if (params.top_k != 0 && rank >= params.top_k) p[order[rank]] = 0.0;
  }
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  double sum = 0.0;
  for (const std::size_t i : order) {
    if (params.top_p < 1.0F && sum >= params.top_p * total) p[i] = 0.0;
    sum += p[i];
  }
  const double kept = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= kept;
  return p;
}

// Pearson's statistic over the tokens with at least five expected draws, against a bound that a
// right sampler passes with a probability beyond 0.99999. The seed is fixed: it never flickers.
void expect_distribution(const std::vector<float>& logits, const SamplingParams& params,
                         const TokenHistory& history) {
  constexpr int kDraws = 60'000;
  const std::vector<double> p = reference(logits, params, history);
  Sampler sampler(static_cast<std::uint32_t>(logits.size()));
  const SamplerParams fixed(params);
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    const TokenId token = sampler.sample(logits, fixed, history, static_cast<Position>(i))->token;
    ASSERT_GT(p[token], 0.0) << "token " << token << " is filtered out";
    ++counts[token];
  }
  double statistic = 0.0;
  int freedom = -1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (expected < 5.0) continue;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++freedom;
  }
  const double bound = freedom + 4.5 * std::sqrt(2.0 * freedom) + 8.0;
  EXPECT_LT(statistic, bound) << freedom << " degrees of freedom";
}

using Four = std::array<std::uint32_t, 4>;

Four philox(const Four& counter, const std::array<std::uint32_t, 2>& key) {
  std::uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
  std::uint32_t k[2] = {key[0], key[1]};
  kernels::philox_rounds(c, k);
  return {c[0], c[1], c[2], c[3]};
}

TEST(Sampler, PhiloxMatchesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(kernels::random_of(0, 0), 0xe169c58d6627e8d5ULL);
}

TEST(Sampler, WeightsFollowThePowerOfTwoAndNeverRise) {
  std::uint64_t last = sampler_weight(0);
  EXPECT_EQ(last, 1ULL << 40);
  for (std::uint64_t x = 1; x < (3ULL << 20); ++x) {
    const std::uint64_t weight = sampler_weight(x);
    ASSERT_LE(weight, last) << x;
    last = weight;
  }
  for (std::uint64_t x = 0; x < (20ULL << 20); x += 7919) {
    const double exact = std::exp2(40.0 - static_cast<double>(x) * 0x1p-20);
    ASSERT_NEAR(static_cast<double>(sampler_weight(x)) / exact, 1.0, 1e-5) << x;
  }
  EXPECT_EQ(sampler_weight(40ULL << 20), 1U);
  EXPECT_EQ(sampler_weight(41ULL << 20), 0U);
  EXPECT_EQ(sampler_weight(~0ULL), 0U);
}

TEST(Sampler, LogarithmIsAccurate) {
  for (const double x : {0x1p-40, 1.0, 1.4142, 1.4143, 1.9999, 2.0, 3.5, 1e3, 123456.789}) {
    const auto total = static_cast<std::uint64_t>(x * 0x1p40);
    EXPECT_NEAR(sampler_log(total), std::log(static_cast<double>(total) * 0x1p-40), 1e-13) << x;
  }
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  SamplingParams params;
  params.temperature = 0.0F;
  std::vector<float> logits = random_logits(1000, 1);
  logits[400] = logits[700] = logits[900] = 50.0F;
  EXPECT_EQ(draw(logits, params, 0), 400);
  logits.assign(1000, -3.0F);
  EXPECT_EQ(draw(logits, params, 0), 0);
  logits[999] = 1e30F;  // beyond the clamp
  EXPECT_EQ(draw(logits, params, 0), 999);
}

TEST(Sampler, TopOneIsGreedyWhateverTheSeed) {
  SamplingParams greedy;
  greedy.temperature = 0.0F;
  SamplingParams one;
  one.top_k = 1;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> logits = random_logits(977, seed);
    logits[seed] = logits[976 - seed] = 7.0F;  // equals at the top
    one.seed = seed;
    one.temperature = 0.1F + static_cast<float>(seed);
    EXPECT_EQ(draw(logits, one, 3), draw(logits, greedy, 3));
  }
}

TEST(Sampler, TopKCutsBetweenEqualsByTheLowestId) {
  const std::vector<float> logits = {1, 2, 2, 2, 2, 1, 0};
  SamplingParams params;
  params.top_k = 2;
  EXPECT_EQ(support(logits, params, {}, 300), (std::set<TokenId>{1, 2}));
  params.top_k = 5;
  EXPECT_EQ(support(logits, params, {}, 1000), (std::set<TokenId>{0, 1, 2, 3, 4}));
  params.top_k = 100;
  EXPECT_EQ(support(logits, params, {}, 2000), (std::set<TokenId>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Sampler, TopPKeepsTheShortestPrefixThatReachesTheShare) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F),
                                     std::log(0.05F)};
  SamplingParams params;
  params.top_p = 0.4F;
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0}));
  params.top_p = 0.7F;
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0, 1}));
  params.top_p = 0.9F;
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0, 1, 2}));
  params.top_p = 1e-12F;  // rounds to nothing: the first one always stays
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0}));
}

// Weights 2^40 and 2^40 * 2^-(D / 2^20) whose share by top_p is a fraction of one unit above 2^40:
// the share is rounded up, so that the first token alone does not reach it.
TEST(Sampler, TopPRoundsItsShareUp) {
  struct Case {
    float distance;
    float top_p;
  };
  for (const Case& c : {Case{4360, 2'218'891'264}, Case{192'542, 4'078'892'800},
                        Case{223'260, 4'157'152'768}, Case{324'049, 4'264'595'712}}) {
    const std::vector<float> logits = {0.0F, -c.distance * 0x1p-16F};
    SamplingParams params;
    params.top_p = c.top_p * 0x1p-32F;
    EXPECT_EQ(support(logits, params, {}, 3000), (std::set<TokenId>{0, 1})) << c.distance;
    params.top_p = (c.top_p - 256) * 0x1p-32F;
    EXPECT_EQ(support(logits, params, {}, 3000), (std::set<TokenId>{0})) << c.distance;
  }
}

TEST(Sampler, MinPKeepsWhatReachesAShareOfTheLargest) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F),
                                     std::log(0.05F)};
  SamplingParams params;
  params.min_p = 0.5F;
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0, 1}));
  params.min_p = 0.2F;
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0, 1, 2}));
  params.min_p = 1.0F;
  EXPECT_EQ(support(logits, params, {}, 500), (std::set<TokenId>{0}));
}

TEST(Sampler, BiasForcesAndExcludes) {
  const std::vector<float> logits = random_logits(300, 9);
  SamplingParams params;
  params.temperature = 0.0F;
  params.logit_bias = {{123, 100.0F}};
  EXPECT_EQ(draw(logits, params, 0), 123);
  params.logit_bias = {{123, 100.0F}, {123, -kInfinity}};
  EXPECT_NE(draw(logits, params, 0), 123);
  params.temperature = 1.0F;
  params.logit_bias.clear();
  for (TokenId token = 0; token < 300; ++token) {
    if (token != 77) params.logit_bias.emplace_back(token, -kInfinity);
  }
  EXPECT_EQ(support(logits, params, {}, 50), (std::set<TokenId>{77}));
  params.top_p = 0.5F;
  EXPECT_EQ(support(logits, params, {}, 50), (std::set<TokenId>{77}));
  params.logit_bias.emplace_back(77, -kInfinity);
  Sampler sampler(300);
  EXPECT_EQ(sampler.sample(logits, SamplerParams(params), {}, 0).error().code, ErrorCode::kNumeric);
}

// As a bias of -infinity does, but of any number of tokens; a bias cannot bring one back. `every`:
// one token of so many stays.
void expect_mask_as_bias(TokenId size, TokenId every) {
  const auto logits = random_logits(static_cast<std::size_t>(size), 21);
  std::vector<std::uint64_t> mask((static_cast<std::size_t>(size) + 63) / 64);
  SamplingParams biased;
  for (TokenId token = 0; token < size; ++token) {
    if (token % every == 3) {
      mask[static_cast<std::size_t>(token) / 64] |= 1ULL << (token % 64);
    } else {
      biased.logit_bias.emplace_back(token, -kInfinity);
    }
  }
  Sampler sampler(static_cast<std::uint32_t>(size));
  for (int set = 0; set < 5; ++set) {
    SamplingParams params;
    params.seed = static_cast<std::uint64_t>(set);
    params.temperature = set == 0 ? 0.0F : 1.5F;
    if (set > 1) params.top_p = 0.7F;
    if (set > 2) params.top_k = 9;
    if (set > 3) params.min_p = 0.1F;
    params.logprobs = set % 2 == 1;
    SamplingParams same = params;
    same.logit_bias = biased.logit_bias;
    params.logit_bias = {{4, 100.0F}};
    same.logit_bias.emplace_back(4, 100.0F);
    for (Position at = 0; at < 60; ++at) {
      const auto masked = sampler.sample(logits, SamplerParams(params), {}, at, {}, mask);
      ASSERT_TRUE(masked.ok());
      EXPECT_EQ(masked->token % every, 3);
      EXPECT_EQ(masked->token, draw(logits, same, at));
    }
  }
  const std::vector<std::uint64_t> nothing(mask.size());
  EXPECT_EQ(sampler.sample(logits, SamplerParams(biased), {}, 0, {}, nothing).error().code,
            ErrorCode::kNumeric);
}

TEST(Sampler, AMaskExcludesWhatItDoesNotHave) { expect_mask_as_bias(300, 7); }

TEST(Sampler, AMaskOfManyTokensIsTheSame) { expect_mask_as_bias(2'000, 5); }

TEST(Sampler, AMaskOfOneTokenIsTheSame) { expect_mask_as_bias(300, 300); }

TEST(Sampler, PenaltiesCountThePromptOnlyForRepetition) {
  TokenHistory history;
  history.add(0, false);
  history.add(1, true);
  history.add(1, true);
  history.add(2, true);
  const std::vector<float> logits = {5.0F, 4.9F, 4.8F, 3.0F};
  SamplingParams params;
  params.temperature = 0.0F;
  params.presence_penalty = 1.0F;
  EXPECT_EQ(draw(logits, params, 0, history), 0);
  params.presence_penalty = 0.0F;
  params.repetition_penalty = 2.0F;
  EXPECT_EQ(draw(logits, params, 0, history), 3);
  params.repetition_penalty = 1.0F;
  params.logit_bias = {{0, -kInfinity}};
  params.frequency_penalty = 0.1F;  // 4.9 - 0.2 against 4.8 - 0.1: equal but for rounding
  params.presence_penalty = 0.0F;
  params.frequency_penalty = 0.2F;
  EXPECT_EQ(draw(logits, params, 0, history), 2);
  const std::vector<float> negative = {-1.0F, -5.0F, -5.0F, -1.5F};
  params = {};
  params.temperature = 0.0F;
  params.repetition_penalty = 2.0F;
  EXPECT_EQ(draw(negative, params, 0, history), 3);
}

// The history of a step that samples several rows, and one from which drafts were taken back, are
// for a row what the history up to this row is.
TEST(Sampler, ARowSeesNoTokenBehindIt) {
  SeededRandom random(21);
  for (int round = 0; round < 200; ++round) {
    SamplingParams params;
    params.temperature = round % 2 == 0 ? 0.0F : 1.0F;
    params.seed = random.next();
    params.repetition_penalty = 1.0F + static_cast<float>(random.next() % 8) * 0.25F;
    params.presence_penalty = static_cast<float>(random.next() % 5) * 0.5F;
    params.frequency_penalty = static_cast<float>(random.next() % 5) * 0.5F;
    const std::vector<float> logits = random_logits(12, random.next(), 2.0F);
    Sampler sampler(12);
    TokenHistory whole;
    TokenHistory part;
    for (std::uint64_t i = random.next() % 6; i > 0; --i) {
      const auto token = static_cast<TokenId>(random.next() % 12);
      whole.add(token, false);
      part.add(token, false);
    }
    std::vector<TokenId> generated(random.next() % 10);
    const std::size_t kept = random.next() % (generated.size() + 1);
    for (std::size_t i = 0; i < generated.size(); ++i) {
      generated[i] = static_cast<TokenId>(random.next() % 12);
      whole.add(generated[i], true);
      if (i < kept) part.add(generated[i], true);
    }
    const SamplerParams fixed(params);
    const auto later = whole.generated_behind(kept);
    ASSERT_EQ(later.size(), generated.size() - kept);
    const TokenId wanted = sampler.sample(logits, fixed, part, 40)->token;
    EXPECT_EQ(sampler.sample(logits, fixed, whole, 40, later)->token, wanted) << round;
    whole.keep_generated(kept);
    EXPECT_EQ(sampler.sample(logits, fixed, whole, 40)->token, wanted) << round;
    EXPECT_EQ(whole.counts().size(), part.counts().size()) << round;
    EXPECT_TRUE(whole.generated_behind(kept).empty());
  }
}

TEST(Sampler, DrawsFollowTheDistribution) {
  TokenHistory history;
  for (TokenId token = 0; token < 20; ++token) history.add(token * 3, token % 2 == 0);
  const std::vector<float> logits = random_logits(64, 5, 2.5F);
  SamplingParams params;
  params.seed = 11;
  expect_distribution(logits, params, history);
  params.temperature = 0.6F;
  expect_distribution(logits, params, history);
  params.temperature = 3.0F;
  params.top_k = 9;
  expect_distribution(logits, params, history);
  params = {};
  params.seed = 13;
  params.top_p = 0.8F;
  expect_distribution(logits, params, history);
  params.min_p = 0.1F;
  params.top_k = 30;
  params.frequency_penalty = 0.7F;
  params.presence_penalty = -0.4F;
  params.repetition_penalty = 1.3F;
  params.logit_bias = {{7, 1.5F}, {8, -2.0F}};
  expect_distribution(logits, params, history);
}

// The kept set, against the double computation, where no probability lies near the cut.
TEST(Sampler, FiltersKeepTheSameTokensAsASlowComputation) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SeededRandom random(seed + 1000);
    const std::vector<float> logits = random_logits(50, seed, 1.5F);
    SamplingParams params;
    params.seed = seed;
    params.temperature = 0.5F + static_cast<float>(random.next() % 100) * 0.02F;
    if (random.next() % 2 == 0) params.top_k = 1 + random.next() % 20;
    if (random.next() % 2 == 0)
      params.top_p = 0.3F + static_cast<float>(random.next() % 60) * 0.01F;
    if (random.next() % 2 == 0) params.min_p = static_cast<float>(random.next() % 50) * 0.01F;
    const std::vector<double> p = reference(logits, params, {});
    const std::set<TokenId> seen = support(logits, params, {}, 4000);
    for (TokenId token = 0; token < 50; ++token) {
      const bool drawn = seen.contains(token);
      EXPECT_FALSE(p[token] == 0.0 && drawn) << seed << " " << token;
      EXPECT_FALSE(p[token] > 0.005 && !drawn) << seed << " " << token;
    }
  }
}

// A filter that removes nothing must not change a draw: the two code paths are one function.
TEST(Sampler, FiltersThatKeepEverythingChangeNothing) {
  const std::vector<float> logits = random_logits(3000, 21);
  SamplingParams plain;
  SamplingParams all;
  all.top_k = 3000;
  SamplingParams share;
  share.top_p = 0.99999994F;  // rounds to less than one, and cuts nothing that is ever drawn here
  for (Position position = 0; position < 300; ++position) {
    const TokenId token = draw(logits, plain, position);
    EXPECT_EQ(draw(logits, all, position), token);
    EXPECT_EQ(draw(logits, share, position), token);
  }
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = random_logits(500, 2, 1.0F);
  SamplingParams params;
  std::set<TokenId> tokens;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    params.seed = seed;
    const TokenId token = draw(logits, params, 5);
    EXPECT_EQ(draw(logits, params, 5), token);
    tokens.insert(token);
  }
  EXPECT_GT(tokens.size(), 10U);
}

TEST(Sampler, LogprobsAreThoseOfTheUnmodifiedLogits) {
  const std::vector<float> logits = random_logits(2000, 4);
  double total = 0.0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  SamplingParams params;
  params.logprobs = true;
  params.top_logprobs = 5;
  params.logit_bias = {{17, 100.0F}};
  params.temperature = 0.3F;
  Sampler sampler(2000);
  const auto result = sampler.sample(logits, SamplerParams(params), {}, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->token, 17);
  EXPECT_NEAR(result->logprob, logits[17] - std::log(total), 3e-5);
  ASSERT_EQ(result->top.size(), 5U);
  std::vector<TokenId> order(2000);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(result->top[i].token, order[i]);
    EXPECT_NEAR(result->top[i].logprob, logits[order[i]] - std::log(total), 3e-5);
  }
}

// Whatever token is asked for: the bits that it would have had, had it been drawn.
TEST(Sampler, AScoreIsTheLogprobOfADraw) {
  const std::vector<float> logits = random_logits(2000, 5);
  Sampler sampler(2000);
  SamplingParams params;
  params.logprobs = true;
  params.top_logprobs = 7;
  for (TokenId token = 0; token < 2000; token += 13) {
    params.logit_bias = {{token, 100.0F}};
    const auto drawn = sampler.sample(logits, SamplerParams(params), {}, 0);
    ASSERT_TRUE(drawn.ok());
    ASSERT_EQ(drawn->token, token);
    const auto scored = sampler.score(logits, token, 7);
    ASSERT_TRUE(scored.ok());
    EXPECT_EQ(scored->token, token);
    EXPECT_EQ(scored->logprob, drawn->logprob);
    EXPECT_EQ(scored->top, drawn->top);
  }
  EXPECT_TRUE(sampler.score(logits, 3, 0)->top.empty());
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  Sampler sampler(100);
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> logits = random_logits(100, 1);
    logits[42] = bad;
    const auto result = sampler.sample(logits, SamplerParams(SamplingParams{}), {}, 0);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kNumeric);
    EXPECT_FALSE(sampler.score(logits, 7, 0).ok());
  }
}

TEST(Sampler, StaysInRangeForParametersAtTheirEnds) {
  TokenHistory history;
  for (TokenId token = 0; token < 50; ++token) {
    for (int i = 0; i < 100; ++i) history.add(token, true);
  }
  const std::vector<float> logits = random_logits(200, 3, 16000.0F);
  for (const float temperature : {1e-30F, 1e-4F, 1.0F, 100.0F}) {
    for (const float penalty : {1e-30F, 1.0F, 100.0F}) {
      SamplingParams params;
      params.temperature = temperature;
      params.repetition_penalty = penalty;
      params.frequency_penalty = -penalty;
      params.presence_penalty = penalty;
      params.logit_bias = {{3, 100.0F}, {4, -100.0F}};
      params.top_p = 0.9F;
      for (Position position = 0; position < 20; ++position) {
        const TokenId token = draw(logits, params, position, history);
        EXPECT_GE(token, 0);
        EXPECT_LT(token, 200);
      }
    }
  }
}

}  // namespace
}  // namespace hearth::node
