#include "coordinator/scheduling/sequence.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

Sequence fresh() {
  Sequence sequence;
  sequence.id = SequenceId(5);
  sequence.prompt_tokens = 3;
  sequence.request.sampling.max_tokens = 2;
  return sequence;
}

SampledToken token(Position position, FinishReason finish = FinishReason::kNone) {
  return {SequenceId(5), position, 1, finish, ErrorCode::kNumeric, 0.0F, {}};
}

TEST(Sequence, TakesItsTokensInOrderOnceAndToTheEnd) {
  Sequence sequence = fresh();
  EXPECT_FALSE(sequence.take(token(2)).ok());
  EXPECT_FALSE(sequence.take(token(4)).ok());
  EXPECT_TRUE(sequence.take(token(3)).ok());
  EXPECT_FALSE(sequence.take(token(3)).ok()) << "the same token twice";
  EXPECT_TRUE(sequence.take(token(4, FinishReason::kLength)).ok());
  EXPECT_FALSE(sequence.take(token(5, FinishReason::kLength)).ok()) << "after its end";
}

TEST(Sequence, MayNotGoOnAfterMaxTokens) {
  Sequence sequence = fresh();
  ASSERT_TRUE(sequence.take(token(3)).ok());
  const Status status = sequence.take(token(4));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("after its 2 tokens"), std::string::npos);
}

TEST(Sequence, OfWhatIsSaidAgainOnlyTheSameIsTakenAndNotKeptTwice) {
  Sequence sequence = fresh();
  sequence.request.sampling.max_tokens = 3;
  ASSERT_TRUE(sequence.take(token(3)).ok());
  ASSERT_TRUE(sequence.take(token(4)).ok());
  sequence.interrupt(TimePoint{}, Duration{}, true);
  EXPECT_EQ(sequence.submit().prompt.size(), 2U) << "its answer; these tests give it no prompt";
  sequence.again = 2;
  ASSERT_TRUE(sequence.take(token(3)).ok());
  EXPECT_EQ(sequence.answer.size(), 2U);
  SampledToken other = token(4);
  other.token = 9;
  const Status status = sequence.take(other);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("token 9 at position 4, where it had 1"),
            std::string::npos);
  EXPECT_TRUE(sequence.take(token(5, FinishReason::kLength)).ok());
}

// Its next token comes after a replay: the time until then is not its next pipeline's pace.
TEST(Sequence, WhatIsInterruptedHasNoLastTokenOnItsNextPipeline) {
  Sequence sequence = fresh();
  sequence.token_at = TimePoint{} + std::chrono::seconds(1);
  sequence.interrupt(TimePoint{}, Duration{}, true);
  EXPECT_FALSE(sequence.token_at.has_value());
}

TEST(Sequence, IsToldOnceWhatOfItsPromptWasCached) {
  Sequence sequence = fresh();
  EXPECT_FALSE(sequence.take_cached(2, 9).ok()) << "it shares with none";
  sequence.scope = Hash256();
  EXPECT_EQ(sequence.open().scope, Hash256());
  EXPECT_FALSE(sequence.take_cached(3, 9).ok()) << "all of its prompt: one row gives the token";
  EXPECT_TRUE(*sequence.take_cached(2, 9));
  EXPECT_EQ(sequence.cached, 2U);
  EXPECT_FALSE(sequence.take_cached(2, 9).ok()) << "twice";
  sequence.interrupt(TimePoint{}, Duration{}, true);
  EXPECT_EQ(sequence.cached, 0U) << "the next pipeline's receipts are of what it computes";
  EXPECT_FALSE(*sequence.take_cached(2, 9)) << "what it left itself";
}

TEST(Sequence, CountsNoMoreAsCachedThanCanBe) {
  Sequence one = fresh();
  one.scope = Hash256();
  EXPECT_TRUE(*one.take_cached(2, 1));
  EXPECT_EQ(one.cached, 1U);
  Sequence other = fresh();
  other.scope = Hash256();
  EXPECT_FALSE(*other.take_cached(2, 0));
  EXPECT_EQ(other.cached, 0U);
}

TEST(Sequence, ScopesAreOfKeysAndOfAllWhoShare) {
  const Hash256 secret = blake2b({});
  RequestPolicy one;
  one.owner = "one";
  RequestPolicy other;
  other.owner = "other";
  EXPECT_NE(cache_scope(secret, one), cache_scope(secret, other));
  EXPECT_NE(cache_scope(secret, one), cache_scope(Hash256(), one));
  RequestPolicy audit;
  audit.owner = "the auditor";
  audit.cache_owner = "one";
  EXPECT_EQ(cache_scope(secret, audit), cache_scope(secret, one)) << "of what it repeats";
  RequestPolicy keyless;
  audit.cache_owner = "";
  EXPECT_EQ(cache_scope(secret, audit), cache_scope(secret, keyless)) << "where there are no keys";
  one.cache = other.cache = CacheScope::kShared;
  EXPECT_EQ(cache_scope(secret, one), cache_scope(secret, other));
  RequestPolicy named;
  named.owner = "shared";
  EXPECT_NE(cache_scope(secret, named), cache_scope(secret, one));
  one.cache = CacheScope::kOff;
  EXPECT_FALSE(cache_scope(secret, one));
}

TEST(Sequence, GathersEveryHashOnceAndSortsThem) {
  Sequence sequence = fresh();
  const auto hash = [](Position position, std::uint32_t stage) {
    return RowHash{SequenceId(5), position, stage, {0, 1}, {}, {}};
  };
  for (const Position position : {3U, 0U, 2U, 1U}) {
    for (const std::uint32_t stage : {1U, 0U}) {
      sequence.held = token(4, FinishReason::kLength);
      EXPECT_FALSE(sequence.hashes_complete(2));
      EXPECT_TRUE(sequence.add_hash(hash(position, stage)).ok());
      EXPECT_FALSE(sequence.add_hash(hash(position, stage)).ok()) << "told twice";
    }
  }
  EXPECT_FALSE(sequence.add_hash(hash(5, 0)).ok()) << "past prompt + max_tokens";
  EXPECT_TRUE(sequence.hashes_complete(2));
  const auto sorted = sequence.sorted_hashes();
  ASSERT_EQ(sorted.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(sorted[i].position, i / 2);
    EXPECT_EQ(sorted[i].stage, i % 2);
  }
}

}  // namespace
}  // namespace hearth::coordinator
