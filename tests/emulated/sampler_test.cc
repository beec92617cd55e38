// The card's sampler against the host's: the same token for every parameter, over vocabularies with
// tails, ties, cuts that fall among them, penalties, biases and what must be refused.
#include "kernels/cuda/sampler.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "card.h"
#include "kernels/sampling.h"
#include "node/engine/card/card_draws.h"
#include "node/engine/sampler.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels::cuda {
namespace {

using namespace fixtures;  // NOLINT
using card::Input;
using card::Memory;

// A row with what its sequence has seen.
struct Case {
  std::vector<float> logits;
  SamplingParams params;
  Position position = 7;
  std::vector<TokenId> prompt;
  std::vector<TokenId> generated;
};

struct Answer {
  SampleOutcome outcome = SampleOutcome::kToken;
  std::uint32_t token = 0;
  bool operator==(const Answer&) const = default;
};

Answer host_answer(const Case& one) {
  node::Sampler sampler(static_cast<std::uint32_t>(one.logits.size()));
  node::TokenHistory history;
  for (const TokenId token : one.prompt) history.add(token, false);
  for (const TokenId token : one.generated) history.add(token, true);
  const auto draw =
      sampler.sample(one.logits, node::SamplerParams(one.params), history, one.position);
  if (draw.ok()) return {SampleOutcome::kToken, static_cast<std::uint32_t>(draw->token)};
  return {draw.error().message == "a logit is not finite" ? SampleOutcome::kNotFinite
                                                          : SampleOutcome::kAllExcluded,
          0};
}

// Rows of one vocabulary, as the card takes them.
struct Batch {
  explicit Batch(const std::vector<Case>& cases) {
    for (const Case& one : cases) add(one);
  }
  void add(const Case& one) {
    const node::SamplerParams from(one.params);
    SampleRow row = node::sample_row(from, one.position);
    row.bias_begin = static_cast<std::uint32_t>(bias.size());
    for (const auto& [token, value] : from.bias) {
      bias.push_back({static_cast<std::uint32_t>(token), static_cast<std::int32_t>(value)});
    }
    row.bias_end = static_cast<std::uint32_t>(bias.size());
    row.excluded_begin = static_cast<std::uint32_t>(excluded.size());
    for (const TokenId token : from.excluded) {
      excluded.push_back(static_cast<std::uint32_t>(token));
    }
    row.excluded_end = static_cast<std::uint32_t>(excluded.size());
    std::map<TokenId, std::uint32_t> counts;
    for (const TokenId token : one.prompt) counts[token] += 0;
    for (const TokenId token : one.generated) ++counts[token];
    row.seen_begin = static_cast<std::uint32_t>(seen.size());
    for (const auto& [token, count] : counts) {
      seen.push_back({static_cast<std::uint32_t>(token), count});
    }
    row.seen_end = static_cast<std::uint32_t>(seen.size());
    rows.push_back(row);
    logits.insert(logits.end(), one.logits.begin(), one.logits.end());
  }
  std::vector<float> logits;
  std::vector<SampleRow> rows;
  std::vector<SampleBias> bias;
  std::vector<std::uint32_t> excluded;
  std::vector<SampleSeen> seen;
};

void compare(const std::vector<Case>& cases, std::uint64_t seed) {
  const Batch batch(cases);
  const Input<float> logits(batch.logits);
  const Input<SampleRow> rows(batch.rows);
  const Input<SampleBias> bias(batch.bias);
  const Input<std::uint32_t> excluded(batch.excluded);
  const Input<SampleSeen> seen(batch.seen);
  Memory<std::int32_t> scratch(batch.logits.size());
  Memory<std::uint32_t> tokens(cases.size());
  Memory<SampleOutcome> outcomes(cases.size());
  card::set_seed(seed);
  ASSERT_TRUE(sample({static_cast<std::uint32_t>(cases.size()),
                      static_cast<std::uint32_t>(cases[0].logits.size()), logits.data(),
                      rows.data(), bias.data(), excluded.data(), seen.data(), scratch.data(),
                      tokens.data(), outcomes.data()},
                     nullptr)
                  .ok());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Answer found{outcomes.values()[i], tokens.values()[i]};
    ASSERT_EQ(found, host_answer(cases[i]))
        << "row " << i << " seed " << seed << " token " << found.token << " for "
        << host_answer(cases[i]).token;
  }
}

// Logits of which some are equal, near the best ones above all.
std::vector<float> logits_of(Generator& random, std::size_t n, float spread) {
  std::vector<float> logits = normals(random, n, spread);
  for (std::size_t i = 0; i < n; i += 3) logits[i] = std::round(logits[i] * 2.0F) / 2.0F;
  return logits;
}

SamplingParams params_of(Generator& random) {
  SamplingParams params;
  const float temperatures[] = {0.0F, 0.02F, 0.7F, 1.0F, 1.7F, 100.0F};
  const float shares[] = {1.0F, 1.0F, 0.9F, 0.5F, 0.05F, 1e-9F};
  const std::uint32_t counts[] = {0, 0, 1, 2, 40, 100'000};
  const float least[] = {0.0F, 0.0F, 0.05F, 0.5F, 1.0F};
  params.temperature = temperatures[random() % std::size(temperatures)];
  params.top_p = shares[random() % std::size(shares)];
  params.top_k = counts[random() % std::size(counts)];
  params.min_p = least[random() % std::size(least)];
  params.seed = std::uint64_t{random()} << 32 | random();
  return params;
}

TEST(CudaSampler, EqualsTheHostsSampler) {
  Generator random(1);
  for (const std::size_t vocabulary : {1U, 33U, 513U, 1999U}) {
    std::vector<Case> cases;
    for (int i = 0; i < 16; ++i) {
      Case one;
      one.logits = logits_of(random, vocabulary, i % 3 == 0 ? 0.4F : 4.0F);
      one.params = params_of(random);
      one.position = static_cast<Position>(random() % 5000);
      cases.push_back(std::move(one));
    }
    compare(cases, vocabulary);
  }
}

// More tokens than a pass has on its way, whole fours of them and not, and than the look at a run
// has.
TEST(CudaSampler, EqualsTheHostsSamplerOverLargeVocabularies) {
  Generator random(7);
  for (const std::size_t vocabulary : {17'001U, 40'004U, 150'000U}) {
    std::vector<Case> cases(2);
    for (Case& one : cases) {
      one.logits = logits_of(random, vocabulary, 2.0F);
      one.params.temperature = 0.8F;
      one.params.seed = std::uint64_t{random()} << 32 | random();
    }
    cases[0].params.temperature = 50.0F;  // the token is anywhere
    cases[1].params.top_p = 0.95F;
    cases[1].params.top_k = vocabulary > 100'000 ? 0 : 5000;
    cases[1].params.min_p = 1e-5F;
    compare(cases, vocabulary);
  }
}

// All tokens alike: every cut falls among ties, and ids decide.
TEST(CudaSampler, TiesGoByTheId) {
  Generator random(2);
  std::vector<Case> cases;
  for (const std::uint32_t top_k : {0U, 1U, 32U, 700U}) {
    for (const float top_p : {1.0F, 0.999F, 0.51F}) {
      Case one;
      one.logits.assign(777, 1.25F);
      one.params.top_k = top_k;
      one.params.top_p = top_p;
      one.params.seed = random();
      cases.push_back(one);
      one.params.temperature = 0.0F;
      cases.push_back(one);
    }
  }
  compare(cases, 3);
}

TEST(CudaSampler, PenaltiesAndBiasesChangeTheLogitsInOrder) {
  Generator random(3);
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<Case> cases;
  for (int i = 0; i < 16; ++i) {
    Case one;
    one.logits = logits_of(random, 300, 3.0F);
    one.params = params_of(random);
    const auto some = [&] { return static_cast<TokenId>(random() % 300); };
    for (int k = 0; k < 40; ++k) one.prompt.push_back(some());
    for (int k = 0; k < 25; ++k) one.generated.push_back(some() % 20);
    if (i % 2 == 0) one.params.repetition_penalty = 0.3F + 0.1F * static_cast<float>(random() % 20);
    if (i % 3 == 0) one.params.frequency_penalty = 1.5F;
    if (i % 5 == 0) one.params.presence_penalty = -2.0F;
    for (int k = 0; k < i % 7; ++k) one.params.logit_bias.emplace_back(some(), 5.0F);
    if (i % 4 == 1) one.params.logit_bias.emplace_back(11, 100.0F);
    if (i % 4 == 1) one.params.logit_bias.emplace_back(11, -60.0F);  // the same once more
    for (int k = 0; k < i % 6; ++k) one.params.logit_bias.emplace_back(some() % 9, kNever);
    cases.push_back(std::move(one));
  }
  compare(cases, 5);
}

TEST(CudaSampler, RefusesWhatTheHostRefuses) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<Case> cases(7);
  for (Case& one : cases) one.logits.assign(70, 0.5F);
  cases[0].logits[69] = INFINITY;
  cases[1].logits[0] = NAN;
  cases[2].logits[33] = -INFINITY;
  for (TokenId token = 0; token < 70; ++token) {
    cases[3].params.logit_bias.emplace_back(token, kNever);
    if (token != 41) cases[4].params.logit_bias.emplace_back(token, kNever);
  }
  cases[4].params.logit_bias.emplace_back(3, kNever);  // twice
  cases[5].logits.assign(70, 3e38F);
  cases[6].logits.assign(70, -3e38F);
  compare(cases, 1);
  EXPECT_EQ(host_answer(cases[3]).outcome, SampleOutcome::kAllExcluded);
  EXPECT_EQ(host_answer(cases[4]).token, 41U);
}

TEST(CudaSampler, SeedsOfTheCardChangeNoToken) {
  Generator random(4);
  std::vector<Case> cases(3);
  for (Case& one : cases) {
    one.logits = logits_of(random, 1201, 2.0F);
    one.params.top_p = 0.8F;
    one.params.top_k = 50;
    one.params.seed = random();
  }
  for (std::uint64_t seed = 0; seed < 3; ++seed) compare(cases, seed);
}

TEST(CudaSampler, RefusesAVocabularyItCannotMean) {
  EXPECT_FALSE(sample({1, 0}, nullptr).ok());
  EXPECT_FALSE(sample({1, (1U << 30) + 1}, nullptr).ok());
  EXPECT_TRUE(sample({0, 5}, nullptr).ok());
}

// The card finds the farthest candidate by halving.
TEST(CudaSampler, NoWeightIsAboveThatOfANearerToken) {
  for (std::uint64_t y = 1; y < 1024; ++y) {
    ASSERT_LE(exp2_polynomial(y << 20), exp2_polynomial((y - 1) << 20));
    ASSERT_LE(exp2_polynomial(y << 10), exp2_polynomial((y - 1) << 10));
  }
  for (std::uint64_t x = 1024; x < 42U << 20; x += 1024) {
    ASSERT_LE(weight_at(x), weight_at(x - 1)) << x;
  }
}

// The shared arithmetic: the host's sampler reads tables, the card computes them.
TEST(CudaSampler, ItsNumbersAreTheHosts) {
  Generator random(6);
  for (std::uint64_t x = 0; x < 42U << 20; x += 1 + random() % 4000) {
    ASSERT_EQ(weight_at(x), node::sampler_weight(x)) << x;
  }
  for (int i = 0; i < 20'000; ++i) {
    const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
    const std::uint64_t a = word() >> random() % 64;
    const std::uint64_t b = i % 9 == 0 ? ~0ULL : word();
    ASSERT_EQ(multiply_high(a, b),
              static_cast<std::uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64));
    const std::uint64_t total = word() >> 4;
    const std::uint64_t share = word() >> 32;
    const auto scaled = static_cast<unsigned __int128>(total) * share;
    ASSERT_EQ(share_of(total, share),
              std::max<std::uint64_t>(1, static_cast<std::uint64_t>((scaled + 0xFFFFFFFFU) >> 32)));
  }
  EXPECT_EQ(multiply_high(~0ULL, ~0ULL), ~0ULL - 1);
}

}  // namespace
}  // namespace hearth::kernels::cuda
