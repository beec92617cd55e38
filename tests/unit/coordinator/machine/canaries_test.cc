#include "coordinator/machine/canaries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

constexpr StepShape kShape{4, 1'000, 2'048, false};

GenerateRequest asked(std::uint32_t prompt, std::uint32_t answer) {
  GenerateRequest request;
  request.prompt.assign(prompt, 999);  // a word of this request alone
  request.sampling.max_tokens = answer;
  request.sampling.temperature = 0.5F;
  request.sampling.seed = 4'711;
  request.sampling.logit_bias = {{999, 5.0F}};
  request.sampling.stop_tokens = {998};
  request.sampling.grammar = {std::byte{9}};
  return request;
}

struct CanariesTest : ::testing::Test {
  SeededRandom random{1};
  testing::FakeClock clock;
  Canaries canaries{{{}, {2}}, kShape, 20'000, random};
};

TEST_F(CanariesTest, TwoInAHundredRequestsBringOne) {
  int made = 0;
  for (int i = 0; i < 10'000; ++i) {
    canaries.saw(asked(10, 10), true);
    while (canaries.due(clock.now(), false)) ++made;
  }
  EXPECT_GT(made, 140);
  EXPECT_LT(made, 260);
}

TEST_F(CanariesTest, IdleCheckersHaveOneNowAndThen) {
  EXPECT_FALSE(canaries.due(clock.now(), false));
  EXPECT_TRUE(canaries.due(clock.now(), true)) << "the first at once";
  int made = 0;
  for (int second = 0; second < 24 * 3'600; second += 10) {
    clock.advance(std::chrono::seconds(10));
    if (canaries.due(clock.now(), true)) ++made;
  }
  EXPECT_GT(made, 24 * 3'600 / 480 - 1);
  EXPECT_LT(made, 24 * 3'600 / 120 + 1);
}

TEST_F(CanariesTest, WhereNobodyChecksNoneIsMade) {
  Canaries always({}, kShape, ledger::kMillion, random);
  for (int i = 0; i < 100; ++i) always.saw(asked(10, 10), false);
  EXPECT_FALSE(always.due(clock.now(), false));
}

TEST_F(CanariesTest, WhatManyAskIsNotOwedForever) {
  Canaries always({}, kShape, ledger::kMillion, random);
  for (int i = 0; i < 1'000; ++i) always.saw(asked(10, 10), true);
  std::uint32_t made = 0;
  while (always.due(clock.now(), false)) ++made;
  EXPECT_EQ(made, Canaries::kDueMost);
}

TEST_F(CanariesTest, TheyAreAsLongAsWhatClientsAskAndHoldNoWordOfIt) {
  std::vector<TokenId> words(900);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<TokenId>(i + 3);
  canaries.heard(words);
  const std::set<std::pair<std::size_t, std::uint32_t>> lengths = {{10, 7}, {300, 40}, {45, 512}};
  for (const auto& [prompt, answer] : lengths) {
    canaries.saw(asked(static_cast<std::uint32_t>(prompt), answer), true);
  }
  std::set<std::pair<std::size_t, std::uint32_t>> seen;
  std::set<std::uint64_t> seeds;
  std::set<std::string> cache_owners;
  for (int i = 0; i < 200; ++i) {
    const GenerateRequest one = canaries.make();
    seen.emplace(one.prompt.size(), one.sampling.max_tokens);
    seeds.insert(one.sampling.seed);
    EXPECT_EQ(std::ranges::count(one.prompt, 999), 0);
    EXPECT_TRUE(one.sampling.logit_bias.empty());
    EXPECT_EQ(one.sampling.stop_tokens, std::vector<TokenId>{2}) << "those of every chat";
    EXPECT_TRUE(one.sampling.grammar.empty()) << "it says what its client asks for";
    EXPECT_EQ(one.sampling.temperature, 0.5F);
    EXPECT_EQ(one.origin, Origin::kCanary);
    EXPECT_TRUE(one.policy.share);
    EXPECT_TRUE(one.policy.trust.empty());
    EXPECT_EQ(one.policy.owner, "");
    cache_owners.insert(one.policy.cache_owner.value_or(""));
  }
  EXPECT_EQ(seen, lengths);
  EXPECT_EQ(seeds.size(), 200u);
  EXPECT_EQ(cache_owners.size(), 200u) << "a common scope would tell what they are";
}

TEST_F(CanariesTest, TheTextIsTheModelsOwnInTheFrameOfAChat) {
  const CanaryWords chat{[](const std::vector<TokenId>& text) {
                           std::vector<TokenId> all = {1, 1, 1};
                           all.insert(all.end(), text.begin(), text.end());
                           return all;
                         },
                         {2}};
  Canaries framed(chat, kShape, 0, random);
  const GenerateRequest first = framed.make();
  EXPECT_EQ(first.prompt.size(), 4u) << "there is no text yet";
  framed.heard({5, 6, 7, 8, 9, 2});
  framed.saw(asked(6, 5), true);
  for (int i = 0; i < 50; ++i) {
    const std::vector<TokenId> prompt = framed.make().prompt;
    ASSERT_EQ(prompt.size(), 6u);
    for (std::size_t at = 4; at < prompt.size(); ++at) {
      EXPECT_EQ(prompt[at], prompt[at - 1] == 9 ? 5 : prompt[at - 1] + 1);
    }
  }
}

TEST_F(CanariesTest, NeitherTextNorShapesGrowWithoutEnd) {
  canaries.heard(std::vector<TokenId>(3 * Canaries::kTextTokens, 5));
  canaries.saw(asked(2'000, 10'000), true);
  const GenerateRequest one = canaries.make();
  EXPECT_LE(one.prompt.size() + one.sampling.max_tokens, kShape.context);
  for (std::size_t i = 0; i < Canaries::kShapes; ++i) canaries.saw(asked(20, 5), true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(canaries.make().prompt.size(), 20u);
}

}  // namespace
}  // namespace hearth::coordinator
